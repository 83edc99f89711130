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

    /**
     * Returns the values of many keys, null where there is none; their pages are read at the same time. Keys, and values,
     * may have about 2 GiB together. With more keys it is an {@link IllegalArgumentException}, with more values a
     * {@link SiltstoneException}: ask for fewer at once.
     */
    public List<byte[]> getMany(List<byte[]> keys) throws SiltstoneException {
        return getMany(0, keys);
    }

    List<byte[]> getMany(long snapshot, List<byte[]> keys) throws SiltstoneException {
        long bytes = 0;
        for (byte[] key : Objects.requireNonNull(keys, "keys")) {
            bytes += Integer.BYTES + Objects.requireNonNull(key, "key").length;
        }
        if (bytes > Integer.MAX_VALUE - 8) {
            throw new IllegalArgumentException(keys.size() + " keys have " + bytes
                    + " bytes together, and at most 2 GiB can be asked for at once; ask for fewer");
        }
        ByteBuffer packed = ByteBuffer.allocate((int) bytes);
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

    /**
     * Gives the keyspace another layout while it is in use: the name of a preset, or a design as JSON, as
     * {@code siltstone advise --json} prints it. What is written from now on is laid out by it, and what is there is
     * rewritten in the background, which {@link #statsJson} shows as {@code redesign}.
     *
     * @throws SiltstoneException of kind {@code INVALID_INPUT} where there is no such layout, or it does not suit the schema
     *     or the memory budget; {@code NO_KEYSPACE} where the keyspace was dropped
     */
    public void redesign(String design) throws SiltstoneException {
        Objects.requireNonNull(design, "design");
        try {
            Native.redesign(handle.get(), design);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Gives the keyspace the schema of {@code options} while it is in use, and the layout of their preset where they name
     * one; their merge operator is not looked at. Returns at once: all items are copied in the background, and until the
     * keyspace has the schema, it is read by the old one, and keys that are written have to fit both.
     *
     * @throws SiltstoneException of kind {@code INVALID_INPUT} where the layout does not suit the schema or the memory
     *     budget, and where another change of the schema is under way; {@code NO_KEYSPACE} where the keyspace was dropped.
     *     Where the key of an item does not fit the schema, {@link #waitForSchema} says so
     */
    public void changeSchema(KeyspaceOptions options) throws SiltstoneException {
        Objects.requireNonNull(options, "options");
        try {
            Native.changeSchema(handle.get(), options.schema, options.isHashed, options.preset);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Waits until the keyspace has the schema that it was last given.
     *
     * @throws SiltstoneException of kind {@code BAD_KEY} where the key of an item does not fit that schema, and
     *     {@code MERGE_FAILED} where the merges of one can't be carried out: the keyspace keeps the schema it had;
     *     {@code INVALID_INPUT} where the change was cancelled; {@code NO_KEYSPACE} where the keyspace was dropped;
     *     {@code READ_ONLY} where the change is under way and the store is open for reading
     */
    public void waitForSchema() throws SiltstoneException {
        try {
            Native.waitForSchema(handle.get());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Lets the keyspace keep its schema.
     *
     * @return whether a change of it was under way
     * @throws SiltstoneException of kind {@code NO_KEYSPACE} where the keyspace was dropped; those of writing to the store
     */
    public boolean cancelSchemaChange() throws SiltstoneException {
        try {
            return Native.cancelSchemaChange(handle.get());
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
     * What a keyspace holds, as far as it is known without reading it, and what gets have cost since it was opened.
     *
     * @param items                 about how many keys there are
     * @param tableBytes            bytes of tables
     * @param writeBufferBytes      bytes of write buffers
     * @param writeBufferEntries    entries of write buffers
     * @param indexBytes            bytes of filters and indexes
     * @param tables                tables
     * @param writeBufferTombstones tombstones among the entries of write buffers
     * @param sealedWriteBuffers    write buffers that wait to be flushed
     * @param sealedBytes           their part of the bytes
     * @param sealedEntries         their part of the entries
     * @param sealedTombstones      their part of the tombstones
     * @param gets                  gets
     * @param deviceReads           reads of the device that these took
     * @param tablesProbed          tables of which these looked at a page
     */
    public record Figures(long items, long tableBytes, long writeBufferBytes, long writeBufferEntries, long indexBytes,
            long tables, long writeBufferTombstones, long sealedWriteBuffers, long sealedBytes, long sealedEntries,
            long sealedTombstones, long gets, long deviceReads, long tablesProbed) {}

    /** Returns its main statistics. */
    public Figures figures() throws SiltstoneException {
        try {
            long[] f = Native.keyspaceFigures(handle.get());
            return new Figures(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12], f[13]);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Background work of one kind for a keyspace, since its store was opened.
     *
     * @param running      jobs that run now
     * @param ended        jobs that ended well
     * @param failed       jobs that failed, and were tried again
     * @param bytesRead    bytes of tables and files that they read
     * @param bytesWritten bytes of tables and files that they wrote
     * @param totalMicros  how long they took in all, in microseconds
     * @param leastMicros  how long the shortest took
     * @param mostMicros   how long the longest took
     */
    public record Work(long running, long ended, long failed, long bytesRead, long bytesWritten, long totalMicros,
            long leastMicros, long mostMicros) {
        /** What no job has done. */
        public static final Work NONE = new Work(0, 0, 0, 0, 0, 0, 0, 0);

        private static Work at(long[] figures, int kind) {
            int at = 8 * kind;
            return new Work(figures[at], figures[at + 1], figures[at + 2], figures[at + 3], figures[at + 4],
                    figures[at + 5], figures[at + 6], figures[at + 7]);
        }

        /** Returns the same without jobs that run now: for totals of what is about to go. */
        public Work withoutRunning() {
            return new Work(0, ended, failed, bytesRead, bytesWritten, totalMicros, leastMicros, mostMicros);
        }

        /** Returns what both have done. */
        public Work plus(Work other) {
            long least = ended == 0 ? other.leastMicros : other.ended == 0 ? leastMicros
                    : Math.min(leastMicros, other.leastMicros);
            return new Work(running + other.running, ended + other.ended, failed + other.failed,
                    bytesRead + other.bytesRead, bytesWritten + other.bytesWritten, totalMicros + other.totalMicros,
                    least, Math.max(mostMicros, other.mostMicros));
        }
    }

    /**
     * Background work for a keyspace.
     *
     * @param flushes     write buffers that became tables
     * @param compactions tables that were merged
     * @param others      other work, such as making filters
     */
    public record Jobs(Work flushes, Work compactions, Work others) {
        /** What nobody has done. */
        public static final Jobs NONE = new Jobs(Work.NONE, Work.NONE, Work.NONE);

        /** Returns the same without jobs that run now: for totals of what is about to go. */
        public Jobs withoutRunning() {
            return new Jobs(flushes.withoutRunning(), compactions.withoutRunning(), others.withoutRunning());
        }

        /** Returns what both have done. */
        public Jobs plus(Jobs other) {
            return new Jobs(flushes.plus(other.flushes), compactions.plus(other.compactions),
                    others.plus(other.others));
        }
    }

    /** Returns what was done for it in the background, which costs nothing to ask for. */
    public Jobs jobs() throws SiltstoneException {
        try {
            long[] figures = Native.keyspaceJobs(handle.get());
            return new Jobs(Work.at(figures, 0), Work.at(figures, 1), Work.at(figures, 2));
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
