package io.siltstone;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Writes to any keyspaces of one store that happen together. It is packed into a direct buffer and crosses into the
 * native library in one call, {@link Store#write}; {@link #clear} empties it for the next one and keeps the buffer, unless
 * that has become much larger than it was to be.
 */
public final class Batch {
    private static final int HEADER_BYTES = 1 + 4 + 4 + 4 + 8;
    private static final byte PUT = 0;
    private static final byte PUT_WITH_TTL = 1;
    private static final byte DELETE = 2;
    private static final byte DELETE_PREFIX = 3;
    private static final byte MERGE = 4;
    private static final byte[] NOTHING = {};
    private static final int MOST_KEPT_BYTES = 1 << 20;

    private final List<Keyspace> keyspaces = new ArrayList<>();
    private final int bytes;
    private ByteBuffer packed;
    private int count;

    /** An empty batch. */
    public Batch() {
        this(4096);
    }

    /** An empty batch with room for so many bytes at first. */
    public Batch(int bytes) {
        this.bytes = Math.max(bytes, HEADER_BYTES);
        packed = ByteBuffer.allocateDirect(this.bytes);
    }

    /** Adds that the key gets a value. */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value) {
        return add(PUT, keyspace, key, value, 0);
    }

    /** Adds that the key gets a value that is gone after a time, which is not negative. */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value, Duration ttl) {
        return add(PUT_WITH_TTL, keyspace, key, value, Arguments.millis(ttl, "ttl"));
    }

    /** Adds that the key is removed. */
    public Batch delete(Keyspace keyspace, byte[] key) {
        return add(DELETE, keyspace, key, NOTHING, 0);
    }

    /** Adds that all keys with this prefix, which is one by the keyspace's schema, are removed. */
    public Batch deletePrefix(Keyspace keyspace, byte[] prefix) {
        return add(DELETE_PREFIX, keyspace, Objects.requireNonNull(prefix, "prefix"), NOTHING, 0);
    }

    /** Adds an operand for the keyspace's merge operator. */
    public Batch merge(Keyspace keyspace, byte[] key, byte[] operand) {
        return add(MERGE, keyspace, key, Objects.requireNonNull(operand, "operand"), 0);
    }

    private synchronized Batch add(byte kind, Keyspace keyspace, byte[] key, byte[] value, long ttlMs) {
        Objects.requireNonNull(keyspace, "keyspace");
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(value, "value");
        makeRoom((long) HEADER_BYTES + key.length + value.length);
        int place = keyspaces.indexOf(keyspace);
        if (place < 0) {
            place = keyspaces.size();
            keyspaces.add(keyspace);
        }
        packed.put(kind).putInt(place).putInt(key.length).putInt(value.length).putLong(ttlMs).put(key).put(value);
        count++;
        return this;
    }

    private void makeRoom(long bytes) {
        if (bytes <= packed.remaining()) {
            return;
        }
        long needed = packed.position() + bytes;
        if (needed > Integer.MAX_VALUE - 8) {
            throw new IllegalArgumentException("a batch holds at most 2 GiB; write it in parts");
        }
        int room = (int) Math.min(Math.max(needed, packed.capacity() * 2L), Integer.MAX_VALUE - 8);
        packed = ByteBuffer.allocateDirect(room).put(packed.flip());
    }

    /** Returns how many operations it holds. */
    public synchronized int count() {
        return count;
    }

    /** Returns how many bytes they take. */
    public synchronized int bytes() {
        return packed.position();
    }

    /** Returns how large its buffer is. */
    synchronized int room() {
        return packed.capacity();
    }

    /** Forgets all operations. */
    public synchronized void clear() {
        packed.clear();
        if (packed.capacity() > Math.max(bytes, MOST_KEPT_BYTES)) {
            packed = ByteBuffer.allocateDirect(bytes);
        }
        keyspaces.clear();
        count = 0;
    }

    synchronized void writeTo(Store store, int synced) throws SiltstoneException {
        long number = store.number();
        if (count == 0) {
            return;
        }
        long[] numbers = new long[keyspaces.size()];
        for (int place = 0; place < numbers.length; place++) {
            numbers[place] = keyspaces.get(place).number();
        }
        try {
            Native.write(number, packed, packed.position(), numbers, synced);
        } finally {
            Reference.reachabilityFence(store);
        }
    }

    synchronized long ingestInto(Keyspace keyspace) throws SiltstoneException {
        if (keyspaces.stream().anyMatch(other -> other != keyspace)) {
            throw new IllegalArgumentException("a batch that is ingested holds puts to that keyspace alone");
        }
        return count == 0 ? 0 : Native.ingest(keyspace.number(), packed, packed.position());
    }
}
