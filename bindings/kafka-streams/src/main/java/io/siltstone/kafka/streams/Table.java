package io.siltstone.kafka.streams;

import io.siltstone.Batch;
import io.siltstone.Keyspace;
import io.siltstone.Range;
import io.siltstone.SiltstoneException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.streams.errors.ProcessorStateException;

/**
 * A keyspace in byte order, with writes that have not reached it yet. Those wait so that one batch takes many of them;
 * they are searched first, and an iterator over keys of which one waits has them written before.
 *
 * <p>Every key has one byte before it: all keys are then one group of a schema with ordered suffixes, which is byte order,
 * and Kafka's empty keys are keys of the engine too. A table that is walked by time has a second group, which holds each
 * key with its time first and no value. Whoever calls holds the lock of the state store, apart from {@link #stored}.
 */
final class Table {
    private static final byte MARK = 'k';
    private static final byte[] GROUP = {MARK};
    private static final byte TIME_MARK = 't';
    private static final byte[] TIME_GROUP = {TIME_MARK};
    private static final byte[] NOTHING = {};
    static final int GROUP_BYTES = 1;
    /** The engine takes one more. */
    private static final int MOST_KEY_BYTES = (1 << 16) - 2;
    /** About what a waiting write takes in Java beside its bytes. */
    private static final int WAITING_BYTES = 100;

    private final Keyspace keyspace;
    private final TimeOrder order;
    private final Consumer<Table> onClose;
    private final TreeMap<byte[], byte[]> waiting = new TreeMap<>(Arrays::compareUnsigned);

    /**
     * @param order how keys by time are made; null where they are not
     */
    Table(Keyspace keyspace, TimeOrder order, Consumer<Table> onClose) {
        this.keyspace = keyspace;
        this.order = order;
        this.onClose = onClose;
    }

    static byte[] marked(byte[] key) {
        return marked(MARK, key);
    }

    private static byte[] marked(byte mark, byte[] key) {
        byte[] marked = new byte[key.length + GROUP_BYTES];
        marked[0] = mark;
        System.arraycopy(key, 0, marked, GROUP_BYTES, key.length);
        return marked;
    }

    static byte[] unmarked(byte[] marked) {
        return Arrays.copyOfRange(marked, GROUP_BYTES, marked.length);
    }

    /**
     * Adds a write, or a deletion where the value is null; returns about the bytes that it takes while it waits. What the
     * engine would refuse is refused here, or it would wait among others and take them along; there is nothing to delete of
     * a key that is too long.
     */
    int add(byte[] key, byte[] value) {
        if (key.length > MOST_KEY_BYTES) {
            if (value == null) {
                return 0;
            }
            throw new ProcessorStateException("A key in " + keyspace.name() + " has " + key.length
                    + " bytes; Siltstone's state stores take " + MOST_KEY_BYTES + " at most, of which windows take 12 and"
                    + " sessions 16. Use shorter keys, or RocksDB for this store");
        }
        waiting.put(key, value);
        return WAITING_BYTES + key.length + (value == null ? 0 : value.length);
    }

    boolean isWaiting(byte[] key) {
        return waiting.containsKey(key);
    }

    /** Returns the value of a write that waits, or null where it is a deletion. */
    byte[] waiting(byte[] key) {
        return waiting.get(key);
    }

    /** Whether a write waits whose key is in the range; null is no bound. */
    boolean isWaitingWithin(byte[] from, byte[] to) {
        byte[] first = from == null ? (waiting.isEmpty() ? null : waiting.firstKey()) : waiting.ceilingKey(from);
        return first != null && (to == null || Arrays.compareUnsigned(first, to) <= 0);
    }

    /** Returns what the engine holds: nothing of a key that is too long. */
    byte[] stored(byte[] key) throws SiltstoneException {
        return key.length > MOST_KEY_BYTES ? null : keyspace.get(marked(key));
    }

    /** Adds all that waits to a batch. They wait on until {@link #written}, so that readers miss nothing. */
    void addTo(Batch batch) {
        for (Map.Entry<byte[], byte[]> write : waiting.entrySet()) {
            byte[] key = write.getKey();
            boolean isDeletion = write.getValue() == null;
            if (isDeletion) {
                batch.delete(keyspace, marked(key));
            } else {
                batch.put(keyspace, marked(key), write.getValue());
            }
            if (order != null && isDeletion) {
                batch.delete(keyspace, marked(TIME_MARK, order.byTime(key)));
            } else if (order != null) {
                batch.put(keyspace, marked(TIME_MARK, order.byTime(key)), NOTHING);
            }
        }
    }

    /** Says that the batch is written. */
    void written() {
        waiting.clear();
    }

    int count() {
        return waiting.size();
    }

    /** Walks over what the engine holds between two keys, both included; null is no bound. */
    Items iterate(byte[] from, byte[] to, boolean isForward) throws SiltstoneException {
        Range range = Range.ofPrefix(GROUP);
        if (from != null) {
            range.from(from);
        }
        if (to != null) {
            range.to(to);
        }
        return new Items.ByKey(keyspace.iterate(isForward ? range : range.reversed()));
    }

    /** Walks over what the engine holds between two times, which are not negative and both included, by time. */
    Items iterateByTime(long from, long to, boolean isForward) throws SiltstoneException {
        Range range = Range.ofPrefix(TIME_GROUP).from(bytes(from));
        if (to < Long.MAX_VALUE) {
            range.before(bytes(to + 1));
        }
        return new Items.ByTime(keyspace, order, isForward ? range : range.reversed());
    }

    private static byte[] bytes(long time) {
        return ByteBuffer.allocate(Long.BYTES).putLong(time).array();
    }

    /** Returns about how many items the engine holds; keys by time are none. */
    long items() throws SiltstoneException {
        return keyspace.figures().items() / (order == null ? 1 : 2);
    }

    Keyspace keyspace() {
        return keyspace;
    }

    void close() {
        waiting.clear();
        keyspace.close();
        onClose.accept(this);
    }
}
