package io.siltstone.kafka.streams;

import io.siltstone.Batch;
import io.siltstone.KeyIterator;
import io.siltstone.Keyspace;
import io.siltstone.Range;
import io.siltstone.SiltstoneException;
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
 * and Kafka's empty keys are keys of the engine too. Whoever calls holds the lock of the state store, apart from
 * {@link #stored}.
 */
final class Table {
    private static final byte MARK = 'k';
    private static final byte[] GROUP = {MARK};
    /** The engine takes one more. */
    private static final int MOST_KEY_BYTES = (1 << 16) - 2;
    /** About what a waiting write takes in Java beside its bytes. */
    private static final int WAITING_BYTES = 100;

    private final Keyspace keyspace;
    private final Consumer<Table> onClose;
    private final TreeMap<byte[], byte[]> waiting = new TreeMap<>(Arrays::compareUnsigned);

    Table(Keyspace keyspace, Consumer<Table> onClose) {
        this.keyspace = keyspace;
        this.onClose = onClose;
    }

    private static byte[] marked(byte[] key) {
        byte[] marked = new byte[key.length + 1];
        marked[0] = MARK;
        System.arraycopy(key, 0, marked, 1, key.length);
        return marked;
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
            if (write.getValue() == null) {
                batch.delete(keyspace, marked(write.getKey()));
            } else {
                batch.put(keyspace, marked(write.getKey()), write.getValue());
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
    KeyIterator iterate(byte[] from, byte[] to, boolean isForward) throws SiltstoneException {
        Range range = Range.ofPrefix(GROUP);
        if (from != null) {
            range.from(from);
        }
        if (to != null) {
            range.to(to);
        }
        return keyspace.iterate(isForward ? range : range.reversed());
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
