package io.siltstone;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes to any keyspaces of one store that happen together. It is packed into a direct buffer and crosses into the
 * native library in one call, {@link Store#write}; {@link #clear} empties it for the next one and keeps the buffer.
 */
public final class Batch {
    private static final int HEADER_BYTES = 1 + 4 + 4 + 4 + 8;
    private static final byte PUT = 0;
    private static final byte PUT_WITH_TTL = 1;
    private static final byte DELETE = 2;
    private static final byte DELETE_PREFIX = 3;
    private static final byte MERGE = 4;
    private static final byte[] NOTHING = {};

    private final List<Keyspace> keyspaces = new ArrayList<>();
    private ByteBuffer packed;
    private int count;

    /** An empty batch. */
    public Batch() {
        this(4096);
    }

    /** An empty batch with room for so many bytes at first. */
    public Batch(int bytes) {
        packed = ByteBuffer.allocateDirect(Math.max(bytes, HEADER_BYTES));
    }

    /** Adds that the key gets a value. */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value) {
        return add(PUT, keyspace, key, value, 0);
    }

    /** Adds that the key gets a value that is gone after a time. */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value, Duration ttl) {
        return add(PUT_WITH_TTL, keyspace, key, value, ttl.toMillis());
    }

    /** Adds that the key is removed. */
    public Batch delete(Keyspace keyspace, byte[] key) {
        return add(DELETE, keyspace, key, NOTHING, 0);
    }

    /** Adds that all keys with this prefix, which is one by the keyspace's schema, are removed. */
    public Batch deletePrefix(Keyspace keyspace, byte[] prefix) {
        return add(DELETE_PREFIX, keyspace, prefix, NOTHING, 0);
    }

    /** Adds an operand for the keyspace's merge operator. */
    public Batch merge(Keyspace keyspace, byte[] key, byte[] operand) {
        return add(MERGE, keyspace, key, operand, 0);
    }

    private synchronized Batch add(byte kind, Keyspace keyspace, byte[] key, byte[] value, long ttlMs) {
        int place = keyspaces.indexOf(keyspace);
        if (place < 0) {
            place = keyspaces.size();
            keyspaces.add(keyspace);
        }
        makeRoom((long) HEADER_BYTES + key.length + value.length);
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

    /** Forgets all operations. */
    public synchronized void clear() {
        packed.clear();
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
