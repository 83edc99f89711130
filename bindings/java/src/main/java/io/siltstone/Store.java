package io.siltstone;

import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * An open store: keyspaces in one directory. All its methods, and those of what it makes, may be called from any number
 * of threads. What is asked of it after {@link #close} throws an {@link IllegalStateException}.
 *
 * <pre>{@code
 * try (Store store = Store.open(Path.of("db"), new Options().memoryBytes(64 << 20))) {
 *     Keyspace users = store.keyspace("users");
 *     users.put(key, value);
 * }
 * }</pre>
 */
public final class Store implements AutoCloseable {
    private final Handle handle;
    private final Path path;

    private Store(Path path, long number) {
        this.path = path;
        this.handle = new Handle(this, "store", number, taken -> {
            try {
                Native.closeStore(taken);
            } catch (SiltstoneException e) {
                // Nobody is there to hear it. What was written is in the log, and is read when the store is opened.
            }
        });
    }

    /** Opens the store in a directory. */
    public static Store open(Path path, Options options) throws SiltstoneException {
        Objects.requireNonNull(path, "path");
        long shared = Objects.requireNonNull(options, "options").resources == null ? 0 : options.resources.number();
        try {
            return new Store(path, Native.open(path.toString(), options.memoryBytes, options.threads,
                    options.maxOpenFiles, options.maxLogBytes, options.reserveBytes, options.syncIntervalMs,
                    options.isSynced, options.creates, options.isReadOnly, options.isDirect, options.preset,
                    options.autoDesign, shared));
        } finally {
            Reference.reachabilityFence(options);
        }
    }

    /** Opens a keyspace whose keys are looked up one by one, and makes it where there is none. */
    public Keyspace keyspace(String name) throws SiltstoneException {
        return keyspace(name, new KeyspaceOptions());
    }

    /** Opens a keyspace, and makes it where there is none. */
    public Keyspace keyspace(String name, KeyspaceOptions options) throws SiltstoneException {
        Arguments.text(name, "name");
        Objects.requireNonNull(options, "options");
        try {
            return new Keyspace(this, name, Native.keyspace(handle.get(), name, options.schema, options.isHashed,
                    options.preset, options.mergeOperator));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Opens a keyspace as it was made, where there is one. */
    public Optional<Keyspace> existingKeyspace(String name) throws SiltstoneException {
        try {
            long number = Native.existingKeyspace(handle.get(), Arguments.text(name, "name"));
            return number == 0 ? Optional.empty() : Optional.of(new Keyspace(this, name, number));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns the names of all keyspaces, sorted. */
    public List<String> keyspaces() throws SiltstoneException {
        try {
            return List.of(Native.keyspaces(handle.get()));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Removes a keyspace with everything in it. */
    public void dropKeyspace(String name) throws SiltstoneException {
        try {
            Native.dropKeyspace(handle.get(), Arguments.text(name, "name"));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Writes a batch as a whole or not at all, as durably as the store's options say. */
    public void write(Batch batch) throws SiltstoneException {
        Objects.requireNonNull(batch, "batch").writeTo(this, 0);
    }

    /** As {@link #write(Batch)}; where {@code synced} it survives a power cut once this returns. */
    public void write(Batch batch, boolean synced) throws SiltstoneException {
        Objects.requireNonNull(batch, "batch").writeTo(this, synced ? 2 : 1);
    }

    /** Returns all keyspaces as they are now. It pins files until it is closed. */
    public Snapshot snapshot() throws SiltstoneException {
        try {
            return new Snapshot(this, Native.snapshot(handle.get()));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Writes the write buffers of all keyspaces to tables. */
    public void flush() throws SiltstoneException {
        upkeep(0);
    }

    /** Makes everything written so far survive a power cut. */
    public void sync() throws SiltstoneException {
        upkeep(1);
    }

    /** Waits until no flush or compaction is due. */
    public void waitUntilIdle() throws SiltstoneException {
        upkeep(2);
    }

    /** Merges everything, so that no space is held by what was overwritten or deleted. */
    public void compact() throws SiltstoneException {
        upkeep(3);
    }

    private void upkeep(int what) throws SiltstoneException {
        try {
            Native.upkeep(handle.get(), what);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Makes a store in a new directory that holds what this one holds now, mostly by hard links. */
    public void checkpoint(Path directory) throws SiltstoneException {
        try {
            Native.checkpoint(handle.get(), Objects.requireNonNull(directory, "directory").toString());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns the store's statistics, as JSON. */
    public String statsJson() throws SiltstoneException {
        try {
            return Native.storeStats(handle.get());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * What concerns a store as a whole, since it was opened.
     *
     * @param stalls        times that writers were stopped until flushes had caught up
     * @param stalledMicros how long they were in all, in microseconds
     * @param failedJobs    background work for no keyspace alone that failed, such as syncing the log; it is tried again
     */
    public record Figures(long stalls, long stalledMicros, long failedJobs) {}

    /** Returns its main figures, which cost nothing to ask for. */
    public Figures figures() throws SiltstoneException {
        try {
            long[] figures = Native.storeFigures(handle.get());
            return new Figures(figures[0], figures[1], figures[2]);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns the store's directory. */
    public Path path() {
        return path;
    }

    /** Whether it was not closed. */
    public boolean isOpen() {
        return handle.isOpen();
    }

    long number() {
        return handle.get();
    }

    /** Returns how many things the process has open in the native library, for tests that look for leaks. */
    static long openHandles() {
        return Native.openHandles();
    }

    /** Closes it, with its keyspaces, snapshots and iterators, for all who use them. A second time does nothing. */
    @Override
    public void close() throws SiltstoneException {
        long number = handle.take();
        if (number != 0) {
            Native.closeStore(number);
        }
    }
}
