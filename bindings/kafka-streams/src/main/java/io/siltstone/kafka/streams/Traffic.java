package io.siltstone.kafka.streams;

import io.siltstone.Keyspace;
import io.siltstone.SiltstoneException;
import java.util.concurrent.atomic.LongAdder;

/** What went in and out of a state store since it was made, for its metrics; from any number of threads. */
final class Traffic {
    private final LongAdder bytesWritten = new LongAdder();
    private final LongAdder bytesRead = new LongAdder();
    private final LongAdder fileErrors = new LongAdder();
    private Keyspace.Jobs dropped = Keyspace.Jobs.NONE;

    void wrote(byte[] key, byte[] value) {
        bytesWritten.add(key.length + (value == null ? 0 : value.length));
    }

    /** Counts a value that a get returns, or null, and returns it. */
    byte[] read(byte[] value) {
        if (value != null) {
            bytesRead.add(value.length);
        }
        return value;
    }

    /** Counts a failure, where it is one of a file. */
    void failed(SiltstoneException failure) {
        switch (failure.kind()) {
            case IO, CORRUPTION, STORAGE_FULL -> fileErrors.increment();
            default -> { }
        }
    }

    /**
     * Keeps what was done for a keyspace that is dropped, so that totals do not fall. Whoever adds them up under this lock
     * counts it as dropped or among those that there are, never in both or none.
     */
    synchronized void drop(Keyspace keyspace, Runnable removal) throws SiltstoneException {
        dropped = dropped.plus(keyspace.jobs().withoutRunning());
        removal.run();
    }

    long bytesWritten() {
        return bytesWritten.sum();
    }

    long bytesRead() {
        return bytesRead.sum();
    }

    long fileErrors() {
        return fileErrors.sum();
    }

    /** Returns what was done for keyspaces that are dropped. */
    synchronized Keyspace.Jobs dropped() {
        return dropped;
    }
}
