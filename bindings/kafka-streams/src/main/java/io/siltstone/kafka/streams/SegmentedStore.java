package io.siltstone.kafka.streams;

import io.siltstone.Batch;
import io.siltstone.SiltstoneException;
import java.util.Collection;
import java.util.List;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ProcessorContextUtils;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.CachingSessionStore;
import org.apache.kafka.streams.state.internals.CachingWindowStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A store whose keys hold a time, in segments of time: a keyspace each, which is dropped as a whole once all of it is
 * past the retention period. Segments, expiry and what ranges hold are as in Kafka's own persistent stores.
 *
 * <p>How time is divided is kept with the state: where the retention period has changed since, what is there stays where
 * it is, and later segments are as long as the new one asks for.
 */
abstract class SegmentedStore extends BaseStore {
    private static final Logger LOG = LoggerFactory.getLogger(SegmentedStore.class);
    /** Ends the store's part of a segment's name; Kafka's names have none. */
    static final char SEPARATOR = '@';
    /** Ends the kinds of stores that can be walked by time. */
    private static final String BY_TIME_KIND = "c";

    private final long retentionMs;
    private final long segmentMs;
    private final ToLongFunction<byte[]> timestamp;
    private final String kind;
    private final TimeOrder order;
    /** By the time at which they begin. */
    private final NavigableMap<Long, Table> segments = new ConcurrentSkipListMap<>();
    private Sensor expired;
    private boolean isByTime;
    private volatile Segmentation segmentation;
    private volatile long streamTime = ConsumerRecord.NO_TIMESTAMP;

    /**
     * @param order how keys by time are made, where ranges over all keys are asked for by time; null where they are not
     */
    SegmentedStore(String name, String kind, long retentionMs, long segmentMs, ToLongFunction<byte[]> timestamp,
            TimeOrder order) {
        super(name, kind);
        this.kind = kind;
        this.order = order;
        this.retentionMs = retentionMs;
        this.segmentMs = segmentMs;
        this.timestamp = timestamp;
        segmentation = Segmentation.of(segmentMs);
    }

    @Override
    void beforeOpen(StateStoreContext stateStoreContext, StateStore root) {
        expired = TaskMetrics.droppedRecordsSensor(Thread.currentThread().getName(),
                stateStoreContext.taskId().toString(), ProcessorContextUtils.metricsImpl(stateStoreContext));
        // The caching layer merges what it holds with what is here by segment and key, and would take another order for
        // other items. What is not walked by time has no keys by time, so it is of another kind.
        isByTime = order != null && !isCached(root);
        becomeKind(isByTime ? kind + BY_TIME_KIND : kind);
    }

    private static boolean isCached(StateStore root) {
        for (StateStore store = root; store instanceof WrappedStateStore<?, ?, ?> wrapper; store = wrapper.wrapped()) {
            if (store instanceof CachingWindowStore || store instanceof CachingSessionStore) {
                return true;
            }
        }
        return false;
    }

    @Override
    void openTables() throws SiltstoneException {
        streamTime = ConsumerRecord.NO_TIMESTAMP;
        String start = keyspaceName() + SEPARATOR;
        for (String keyspace : task().keyspaces()) {
            if (keyspace.startsWith(start) && keyspace.lastIndexOf(SEPARATOR) == start.length() - 1) {
                segments.put(Long.parseLong(keyspace.substring(start.length())), openTable(keyspace));
            }
        }
        divideTime();
    }

    /** Divides time as it was when the segments were made, and as the retention period asks for after them. */
    private void divideTime() throws SiltstoneException {
        byte[] stored = task().meta().get(metaKey("segments", ""));
        Segmentation before = stored == null ? null : Segmentation.decode(stored);
        segmentation = before == null || segments.isEmpty() ? Segmentation.of(segmentMs)
                : before.changedTo(segmentMs, segments.firstKey(), segments.lastKey());
        if (!segmentation.equals(before)) {
            // On the device before there is a segment of it.
            task().store().write(new Batch().put(task().meta(), metaKey("segments", ""), segmentation.encode()), true);
        }
    }

    @Override
    Collection<Table> tables() {
        return segments.values();
    }

    @Override
    void closeTables() {
        segments.values().forEach(Table::close);
        segments.clear();
    }

    /** How many segments there are, for tests. */
    final int segmentCount() {
        return segments.size();
    }

    final long streamTime() {
        return streamTime;
    }

    /**
     * The segment of a time, made where it is not there; null where it is past the retention period. Segments that
     * are past it now are dropped, which no batch takes back: the transaction that did is marked before.
     */
    private Table liveSegment(long time, boolean isInTransaction) throws SiltstoneException {
        long start = segmentation.start(time);
        long oldest = segmentation.start(streamTime - retentionMs);
        if (start < oldest) {
            return null;
        }
        Table segment = segments.get(start);
        if (segment == null) {
            segment = openTable(segmentName(start));
            segments.put(start, segment);
        }
        if (segments.firstKey() < oldest) {
            if (isInTransaction) {
                markUnfinished();
            }
            dropBefore(oldest);
        }
        return segment;
    }

    private Table openTable(String keyspace) throws SiltstoneException {
        return task().table(keyspace, isByTime ? order : null);
    }

    private String segmentName(long start) {
        return keyspaceName() + SEPARATOR + start;
    }

    private void dropBefore(long oldest) throws SiltstoneException {
        List<Long> past = List.copyOf(segments.headMap(oldest, false).keySet());
        for (Long start : past) {
            Table segment = segments.get(start);
            traffic().drop(segment.keyspace(), () -> segments.remove(start));
            segment.close();
            task().store().dropKeyspace(segmentName(start));
        }
    }

    final synchronized void putKey(Bytes key, byte[] value) {
        validateOpen();
        long time = timestamp.applyAsLong(key.get());
        streamTime = Math.max(streamTime, time);
        try {
            Table segment = liveSegment(time, true);
            if (segment == null) {
                expired.record(1.0d, ProcessorContextUtils.asInternalProcessorContext(context()).currentSystemTimeMs());
            } else {
                write(segment, key.get(), value);
            }
        } catch (SiltstoneException e) {
            throw failure("Error while writing to store " + name(), e);
        }
    }

    final synchronized void removeKey(Bytes key) {
        validateOpen();
        long time = timestamp.applyAsLong(key.get());
        streamTime = Math.max(streamTime, time);
        Table segment = segments.get(segmentation.start(time));
        if (segment != null) {
            write(segment, key.get(), null);
        }
    }

    final byte[] getKey(Bytes key) {
        validateOpen();
        long time = timestamp.applyAsLong(key.get());
        long start = segmentation.start(time);
        Table segment = time < oldestLive(time) ? null : segments.get(start);
        try {
            return segment == null ? null : read(segment, key.get());
        } catch (InvalidStateStoreException e) {
            // Dropped meanwhile by the thread that writes: what it held is past the retention period.
            if (isOpen() && segments.get(start) != segment) {
                return null;
            }
            throw e;
        }
    }

    /** The later of a time and the first one that is within the retention period. */
    final long oldestLive(long from) {
        return Math.max(from, streamTime - retentionMs + 1);
    }

    @Override
    void beforeRestore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            streamTime = Math.max(streamTime, timestamp.applyAsLong(record.key()));
        }
    }

    @Override
    void restore(byte[] key, byte[] value) throws SiltstoneException {
        Table segment = liveSegment(timestamp.applyAsLong(key), false);
        if (segment != null) {
            writeRestored(segment, key, value);
        }
    }

    /**
     * Walks over the wanted keys of the segments of a time range, segment by segment and within each in byte order.
     *
     * @param low  the first key to look at in each segment, or null
     * @param high the last one, or null
     */
    final KeyValueIterator<Bytes, byte[]> scan(long timeFrom, long timeTo, byte[] low, byte[] high, boolean isForward,
            Predicate<Bytes> isWanted) {
        validateOpen();
        return new Iterators.Segments(segmentsOf(timeFrom, timeTo, isForward),
                segment -> iterate(segment, low, high, isForward), isWanted);
    }

    private List<Table> segmentsOf(long timeFrom, long timeTo, boolean isForward) {
        long first = segmentation.start(timeFrom);
        long last = segmentation.start(timeTo);
        if (first > last) {
            return List.of();
        }
        NavigableMap<Long, Table> found = segments.subMap(first, true, last, true);
        return List.copyOf((isForward ? found : found.descendingMap()).values());
    }

    /** Whether it can be walked by time. */
    final boolean isByTime() {
        return isByTime;
    }

    /** Walks over all items of a time range by time. Those of one time are in the order of {@link TimeOrder}. */
    final KeyValueIterator<Bytes, byte[]> scanByTime(long timeFrom, long timeTo, boolean isForward) {
        validateOpen();
        long from = Math.max(0, timeFrom);
        return timeTo < from ? Iterators.none() : new Iterators.Segments(segmentsOf(from, timeTo, isForward),
                segment -> iterateByTime(segment, from, timeTo, isForward), key -> true);
    }

    final boolean isBackwards(Bytes from, Bytes to) {
        if (Iterators.isBackwards(from, to)) {
            LOG.warn(Iterators.BACKWARDS);
            return true;
        }
        return false;
    }

    static Bytes requireKey(Bytes key) {
        return Objects.requireNonNull(key, "key cannot be null");
    }
}
