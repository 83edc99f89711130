package io.siltstone;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** A keyspace of a store: keys of 1 to 65,535 bytes, and values. Made by {@link Store#keyspace}. */
public final class Keyspace implements AutoCloseable {
    /** Keeps the store reachable, whose cleaner closes it. */
    private final Store store;
    private final String name;
    private final Handle handle;

    Keyspace(Store store, String name, long number) {
        this.store = store;
        this.name = name;
        this.handle = new Handle(this, "keyspace", number, taken -> Native.release(Native.KEYSPACE, taken));
    }

    long number() {
        return handle.get();
    }

    /** Returns its name. */
    public String name() {
        return name;
    }

    /** Returns its store. */
    public Store store() {
        return store;
    }

    /** Returns the key's value, or null. */
    public byte[] get(byte[] key) throws SiltstoneException {
        return get(0, key);
    }

    /**
     * Copies the key's value into a direct buffer from its first byte on, whatever its position, as far as it fits.
     *
     * @return the value's length, which may be more than the buffer's capacity, or -1
     */
    public int get(byte[] key, ByteBuffer into) throws SiltstoneException {
        Objects.requireNonNull(key, "key");
        if (!Objects.requireNonNull(into, "into").isDirect() || into.isReadOnly()) {
            throw new IllegalArgumentException("the buffer is to be direct, and not for reading only");
        }
        try {
            return Native.getInto(handle.get(), 0, key, into);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    byte[] get(long snapshot, byte[] key) throws SiltstoneException {
        try {
            return Native.get(handle.get(), snapshot, Objects.requireNonNull(key, "key"));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Whether there is such a key. */
    public boolean contains(byte[] key) throws SiltstoneException {
        try {
            return Native.contains(handle.get(), 0, Objects.requireNonNull(key, "key"));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns the values of many keys, null where there is none; their pages are read at the same time. */
    public List<byte[]> getMany(List<byte[]> keys) throws SiltstoneException {
        return getMany(0, keys);
    }

    List<byte[]> getMany(long snapshot, List<byte[]> keys) throws SiltstoneException {
        int bytes = 0;
        for (byte[] key : Objects.requireNonNull(keys, "keys")) {
            bytes = Math.addExact(bytes, Math.addExact(4, Objects.requireNonNull(key, "key").length));
        }
        ByteBuffer packed = ByteBuffer.allocate(bytes);
        keys.forEach(key -> packed.putInt(key.length).put(key));
        ByteBuffer answer;
        try {
            answer = ByteBuffer.wrap(Native.multiGet(handle.get(), snapshot, packed.array()));
        } finally {
            Reference.reachabilityFence(this);
        }
        List<byte[]> values = new ArrayList<>(keys.size());
        while (answer.hasRemaining()) {
            int length = answer.getInt();
            byte[] value = length < 0 ? null : new byte[length];
            if (value != null) {
                answer.get(value);
            }
            values.add(value);
        }
        return values;
    }

    /** Gives the key a value. */
    public void put(byte[] key, byte[] value) throws SiltstoneException {
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(value, "value");
        try {
            Native.put(handle.get(), key, value);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Removes the key, where it is there. */
    public void delete(byte[] key) throws SiltstoneException {
        try {
            Native.delete(handle.get(), Objects.requireNonNull(key, "key"));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Gives the key a value if it has the expected one. Null stands for no value, in either place.
     *
     * @return whether it had, and so was set
     */
    public boolean compareAndSet(byte[] key, byte[] expected, byte[] value) throws SiltstoneException {
        try {
            return Native.compareAndSet(handle.get(), Objects.requireNonNull(key, "key"), expected, value);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Removes everything in it. */
    public void clear() throws SiltstoneException {
        try {
            Native.clear(handle.get());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns about how many keys there are, without reading them. */
    public long approximateLength() throws SiltstoneException {
        try {
            return Native.approximateLength(handle.get());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Makes tables of a batch's puts directly, past log and write buffers: for large batches, as a whole or not at all.
     *
     * @return how many items there were
     */
    public long ingest(Batch batch) throws SiltstoneException {
        try {
            return Objects.requireNonNull(batch, "batch").ingestInto(this);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns its statistics, as JSON. */
    public String statsJson() throws SiltstoneException {
        try {
            return Native.keyspaceStats(handle.get());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * What a keyspace holds, as far as it is known without reading it.
     *
     * @param items              about how many keys there are
     * @param tableBytes         bytes of tables
     * @param writeBufferBytes   bytes of write buffers
     * @param writeBufferEntries entries of write buffers
     * @param indexBytes         bytes of filters and indexes
     * @param tables             tables
     */
    public record Figures(long items, long tableBytes, long writeBufferBytes, long writeBufferEntries, long indexBytes,
            long tables) {}

    /** Returns its main statistics. */
    public Figures figures() throws SiltstoneException {
        try {
            long[] figures = Native.keyspaceFigures(handle.get());
            return new Figures(figures[0], figures[1], figures[2], figures[3], figures[4], figures[5]);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Walks over all items, group by group. */
    public KeyIterator iterate() throws SiltstoneException {
        return iterate(new Range());
    }

    /** Walks over the items of a range. */
    public KeyIterator iterate(Range range) throws SiltstoneException {
        return iterate(0, range);
    }

    KeyIterator iterate(long snapshot, Range range) throws SiltstoneException {
        Objects.requireNonNull(range, "range");
        try {
            long number = handle.get();
            return new KeyIterator(this, range.prefix == null
                    ? Native.iterate(number, snapshot, range.isReverse, range.keysOnly)
                    : Native.iterateGroup(number, snapshot, range.prefix, range.fromKind, range.from, range.toKind,
                            range.to, range.isReverse, range.keysOnly));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Lets go of this handle; the keyspace stays. What is asked of it afterwards is an error. */
    @Override
    public void close() {
        handle.close();
    }
}
