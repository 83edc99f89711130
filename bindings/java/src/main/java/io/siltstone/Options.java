package io.siltstone;

import java.time.Duration;

/**
 * Options of a store. Each method changes this value and returns it. One that is given a negative number throws an
 * {@link IllegalArgumentException}; whether the others suit is found when the store is opened.
 */
public final class Options {
    long memoryBytes = 256L << 20;
    int threads = 1;
    int maxOpenFiles = 512;
    long maxLogBytes = 256L << 20;
    long reserveBytes = 64L << 20;
    long syncIntervalMs = 1000;
    boolean isSynced;
    boolean creates = true;
    boolean isReadOnly;
    boolean isDirect;
    String preset;
    String autoDesign;
    Resources resources;

    /**
     * Bytes for write buffers, filters, indexes, caches and compaction together: 1 MiB to 64 TiB. 256 MiB by default.
     */
    public Options memoryBytes(long bytes) {
        memoryBytes = Arguments.notNegative(bytes, "memoryBytes");
        return this;
    }

    /** Threads that compact, beside one that flushes; at most 64. 0: none at all, and work is done inside writes. */
    public Options threads(int count) {
        threads = (int) Arguments.notNegative(count, "threads");
        return this;
    }

    /** Open files kept for reading; 8 at least. */
    public Options maxOpenFiles(int count) {
        maxOpenFiles = (int) Arguments.notNegative(count, "maxOpenFiles");
        return this;
    }

    /** Bytes of log from which on the keyspace with the oldest part of it is flushed. */
    public Options maxLogBytes(long bytes) {
        maxLogBytes = Arguments.notNegative(bytes, "maxLogBytes");
        return this;
    }

    /** Free bytes of the disk below which writes are refused, so that compaction keeps its room. */
    public Options reserveBytes(long bytes) {
        reserveBytes = Arguments.notNegative(bytes, "reserveBytes");
        return this;
    }

    /** How often buffered writes are brought to the device; zero for never. */
    public Options syncInterval(Duration interval) {
        syncIntervalMs = Arguments.millis(interval, "syncInterval");
        return this;
    }

    /** Whether each write survives a power cut before it returns. Otherwise it survives the process. */
    public Options synced(boolean synced) {
        isSynced = synced;
        return this;
    }

    /** Whether a store is made where there is none. It is by default. */
    public Options createIfMissing(boolean create) {
        creates = create;
        return this;
    }

    /** Whether the store is opened for reading only, beside a process that may write to it. */
    public Options readOnly(boolean readOnly) {
        isReadOnly = readOnly;
        return this;
    }

    /** Whether tables are read around the system's page cache, so that the budget is all the memory there is. */
    public Options direct(boolean direct) {
        isDirect = direct;
        return this;
    }

    /**
     * The layout of keyspaces that are made without one, by its name, such as {@code "silt"}; {@code "auto"} is what suits
     * so much memory best.
     */
    public Options preset(String name) {
        preset = Arguments.textOrNull(name, "preset");
        return this;
    }

    /**
     * Whether keyspaces look for a layout that suits what they do better: {@code "off"}, {@code "propose"} (their
     * statistics say which) or {@code "apply"}. By default {@code "propose"} with the preset {@code "auto"}, else
     * {@code "off"}.
     */
    public Options autoDesign(String mode) {
        autoDesign = Arguments.textOrNull(mode, "autoDesign");
        return this;
    }

    /** What this store shares with others; it takes the place of memory, threads and open files here. */
    public Options resources(Resources shared) {
        resources = shared;
        return this;
    }
}
