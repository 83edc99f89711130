package io.siltstone.kafka.streams;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** A window store: keys end in the window's start, 8 bytes, and a sequence number, 4 bytes, as Kafka's do. */
class SiltstoneWindowStore extends SegmentedStore implements WindowStore<Bytes, byte[]> {
    static final String SCOPE = "siltstone-window";
    private static final int SUFFIX_BYTES = Long.BYTES + Integer.BYTES;

    private final long windowMs;
    private final boolean retainsDuplicates;
    private final WindowKeySchema schema = new WindowKeySchema();
    private int sequence;

    SiltstoneWindowStore(SiltstoneWindowSupplier supplier, String kind) {
        super(supplier.name(), kind, supplier.retentionPeriod(), supplier.segmentIntervalMs(),
                SiltstoneWindowStore::start, supplier.isByTime() ? TimeOrder.OF_WINDOWS : null);
        windowMs = supplier.windowSize();
        retainsDuplicates = supplier.retainDuplicates();
    }

    /** Whose values begin with a timestamp. */
    static final class Timestamped extends SiltstoneWindowStore implements TimestampedBytesStore {
        Timestamped(SiltstoneWindowSupplier supplier) {
            super(supplier, "wt");
        }
    }

    /** Whose values begin with headers and a timestamp. */
    static final class WithHeaders extends SiltstoneWindowStore implements TimestampedBytesStore, HeadersBytesStore {
        WithHeaders(SiltstoneWindowSupplier supplier) {
            super(supplier, "wh");
        }
    }

    private static long start(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(stored.length - SUFFIX_BYTES);
    }

    private static Bytes key(Bytes stored) {
        byte[] bytes = stored.get();
        return Bytes.wrap(Arrays.copyOf(bytes, bytes.length - SUFFIX_BYTES));
    }

    @Override
    public synchronized void put(Bytes key, byte[] value, long windowStartTimestamp) {
        requireKey(key);
        if (value == null && retainsDuplicates) {
            return;
        }
        if (retainsDuplicates) {
            sequence = (sequence + 1) & 0x7FFFFFFF;
        }
        putKey(WindowKeySchema.toStoreKeyBinary(key, windowStartTimestamp, sequence), value);
    }

    @Override
    public byte[] fetch(Bytes key, long time) {
        requireKey(key);
        return getKey(WindowKeySchema.toStoreKeyBinary(key, time, sequence));
    }

    private KeyValueIterator<Bytes, byte[]> windowsOf(Bytes key, long timeFrom, long timeTo, boolean isForward) {
        requireKey(key);
        long from = oldestLive(timeFrom);
        if (timeTo < from) {
            return Iterators.none();
        }
        byte[] low = schema.lowerRangeFixedSize(key, from).get();
        byte[] high = schema.upperRangeFixedSize(key, timeTo).get();
        int length = key.get().length + SUFFIX_BYTES;
        return scan(from, timeTo, low, high, isForward, stored -> stored.get().length == length
                && start(stored.get()) >= from && start(stored.get()) <= timeTo && key(stored).equals(key));
    }

    private KeyValueIterator<Bytes, byte[]> windows(Bytes keyFrom, Bytes keyTo, long timeFrom, long timeTo,
            boolean isForward) {
        if (isBackwards(keyFrom, keyTo)) {
            return Iterators.none();
        }
        long from = oldestLive(timeFrom);
        if (timeTo < from) {
            return Iterators.none();
        }
        byte[] low = Iterators.bytes(schema.lowerRange(keyFrom, from));
        byte[] high = Iterators.bytes(schema.upperRange(keyTo, timeTo));
        Predicate<Bytes> isWanted = stored -> {
            long start = start(stored.get());
            Bytes key = key(stored);
            return start >= from && start <= timeTo && (keyFrom == null || key.compareTo(keyFrom) >= 0)
                    && (keyTo == null || key.compareTo(keyTo) <= 0);
        };
        return scan(from, timeTo, low, high, isForward, isWanted);
    }

    private WindowStoreIterator<byte[]> byStart(KeyValueIterator<Bytes, byte[]> items) {
        return new Iterators.Windows(items, stored -> start(stored.get()));
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> windowed(KeyValueIterator<Bytes, byte[]> items) {
        return new Iterators.Keyed<>(items, stored -> WindowKeySchema.fromStoreBytesKey(stored.get(), windowMs));
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long timeFrom, long timeTo) {
        return byStart(windowsOf(key, timeFrom, timeTo, true));
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long timeFrom, long timeTo) {
        return byStart(windowsOf(key, timeFrom, timeTo, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long timeFrom, long timeTo) {
        return windowed(windows(keyFrom, keyTo, timeFrom, timeTo, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo, long timeFrom,
            long timeTo) {
        return windowed(windows(keyFrom, keyTo, timeFrom, timeTo, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return windowed(windows(null, null, 0, Long.MAX_VALUE, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return windowed(windows(null, null, 0, Long.MAX_VALUE, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long timeFrom, long timeTo) {
        return all(timeFrom, timeTo, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long timeFrom, long timeTo) {
        return all(timeFrom, timeTo, false);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> all(long timeFrom, long timeTo, boolean isForward) {
        return windowed(isByTime() ? scanByTime(oldestLive(timeFrom), timeTo, isForward)
                : windows(null, null, timeFrom, timeTo, isForward));
    }
}
