package io.siltstone;

import java.lang.ref.Reference;
import java.util.List;
import java.util.Objects;

/** All keyspaces of a store as they were at one moment. Made by {@link Store#snapshot}. */
public final class Snapshot implements AutoCloseable {
    private final Store store;
    private final Handle handle;

    Snapshot(Store store, long number) {
        this.store = store;
        this.handle = new Handle(this, "snapshot", number, taken -> Native.release(Native.SNAPSHOT, taken));
    }

    /** Returns the value that the key had, or null. */
    public byte[] get(Keyspace keyspace, byte[] key) throws SiltstoneException {
        try {
            return Objects.requireNonNull(keyspace, "keyspace").get(handle.get(), key);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns the values that the keys had, null where there was none. */
    public List<byte[]> getMany(Keyspace keyspace, List<byte[]> keys) throws SiltstoneException {
        try {
            return Objects.requireNonNull(keyspace, "keyspace").getMany(handle.get(), keys);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Walks over the items that there were in a range. */
    public KeyIterator iterate(Keyspace keyspace, Range range) throws SiltstoneException {
        try {
            return Objects.requireNonNull(keyspace, "keyspace").iterate(handle.get(), range);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns its store. */
    public Store store() {
        return store;
    }

    @Override
    public void close() {
        handle.close();
    }
}
