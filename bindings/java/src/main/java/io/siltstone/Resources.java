package io.siltstone;

import java.lang.ref.Reference;

/**
 * Memory, threads and open files that several stores of a process share: give it to each in
 * {@link Options#resources}. It may be closed before they are; what is shared ends with the last of them.
 */
public final class Resources implements AutoCloseable {
    private final Handle handle;

    /**
     * @param memoryBytes  bytes that all stores hold together: 1 MiB to 64 TiB
     * @param threads      threads that compact, beside one that flushes and one that syncs: 1 to 64
     * @param maxOpenFiles open files kept for reading: 8 at least
     */
    public Resources(long memoryBytes, int threads, int maxOpenFiles) throws SiltstoneException {
        long number = Native.newResources(Arguments.notNegative(memoryBytes, "memoryBytes"),
                (int) Arguments.notNegative(threads, "threads"),
                (int) Arguments.notNegative(maxOpenFiles, "maxOpenFiles"));
        handle = new Handle(this, "resources value", number, taken -> Native.release(Native.RESOURCES, taken));
    }

    long number() {
        return handle.get();
    }

    /** Returns the bytes that the stores hold together. */
    public long memoryBytes() {
        return stat(0);
    }

    /** Returns the bytes that they may hold. */
    public long budgetBytes() {
        return stat(1);
    }

    /** Returns how many stores are open with it. */
    public long stores() {
        return stat(2);
    }

    /** Returns how many files are kept open for reading. */
    public long openFiles() {
        return stat(3);
    }

    private long stat(int which) {
        try {
            return Native.resourceStats(handle.get())[which];
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public void close() {
        handle.close();
    }
}
