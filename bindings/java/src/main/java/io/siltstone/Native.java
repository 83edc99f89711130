package io.siltstone;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * What the native library does. Handles are numbers that the library looks up in each call; one that is closed gives an
 * {@link IllegalStateException}, never a crash.
 */
final class Native {
    static final int RESOURCES = 0;
    static final int KEYSPACE = 1;
    static final int SNAPSHOT = 2;
    static final int ITERATOR = 3;

    static {
        load();
    }

    private Native() {}

    /** The library's place in the jar: one folder for each operating system and processor. */
    static String resource() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String processor = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String folder = system.contains("mac") ? "macos" : system.contains("win") ? "windows" : "linux";
        String kind = processor.equals("amd64") ? "x86_64" : processor.equals("arm64") ? "aarch64" : processor;
        return "/io/siltstone/native/" + folder + "-" + kind + "/" + System.mapLibraryName("siltstone_java");
    }

    /** Loads the file that {@code siltstone.library} names, or the library in the jar, by a copy that is removed. */
    private static void load() {
        String named = System.getProperty("siltstone.library");
        if (named != null) {
            System.load(Path.of(named).toAbsolutePath().toString());
            return;
        }
        String resource = resource();
        try (InputStream packed = Native.class.getResourceAsStream(resource)) {
            if (packed == null) {
                throw new UnsatisfiedLinkError("the jar has no " + resource
                        + "; build it on this machine, or name the library's file in -Dsiltstone.library");
            }
            Path file = Files.createTempFile("siltstone", resource.substring(resource.lastIndexOf('/') + 1));
            try {
                Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                // Linux and macOS keep a loaded library when its file is gone; Windows removes it at the end.
                if (!file.toFile().delete()) {
                    file.toFile().deleteOnExit();
                }
            }
        } catch (IOException e) {
            UnsatisfiedLinkError error = new UnsatisfiedLinkError("the native library can't be unpacked into "
                    + System.getProperty("java.io.tmpdir") + ": " + e.getMessage());
            error.initCause(e);
            throw error;
        }
    }

    static native long newResources(long memoryBytes, int threads, int maxOpenFiles) throws SiltstoneException;

    static native long[] resourceStats(long resources);

    static native long open(String path, long memoryBytes, int threads, int maxOpenFiles, long maxLogBytes,
            long reserveBytes, long syncIntervalMs, boolean isSynced, boolean creates, boolean isReadOnly,
            boolean isDirect, String preset, String autoDesign, long resources) throws SiltstoneException;

    static native void closeStore(long store) throws SiltstoneException;

    static native long keyspace(long store, String name, String schema, boolean isHashed, String preset,
            String mergeOperator) throws SiltstoneException;

    static native long existingKeyspace(long store, String name) throws SiltstoneException;

    static native String[] keyspaces(long store) throws SiltstoneException;

    static native void dropKeyspace(long store, String name) throws SiltstoneException;

    static native void write(long store, ByteBuffer operations, int length, long[] keyspaces, int isSynced)
            throws SiltstoneException;

    static native void upkeep(long store, int what) throws SiltstoneException;

    static native void checkpoint(long store, String path) throws SiltstoneException;

    static native long snapshot(long store) throws SiltstoneException;

    static native String storeStats(long store) throws SiltstoneException;

    static native long[] storeFigures(long store) throws SiltstoneException;

    static native byte[] get(long keyspace, long snapshot, byte[] key) throws SiltstoneException;

    static native int getInto(long keyspace, long snapshot, byte[] key, ByteBuffer into) throws SiltstoneException;

    static native boolean contains(long keyspace, long snapshot, byte[] key) throws SiltstoneException;

    static native byte[] multiGet(long keyspace, long snapshot, byte[] keys) throws SiltstoneException;

    static native void put(long keyspace, byte[] key, byte[] value) throws SiltstoneException;

    static native void delete(long keyspace, byte[] key) throws SiltstoneException;

    static native boolean compareAndSet(long keyspace, byte[] key, byte[] expected, byte[] value)
            throws SiltstoneException;

    static native void clear(long keyspace) throws SiltstoneException;

    static native void redesign(long keyspace, String design) throws SiltstoneException;

    static native void changeSchema(long keyspace, String schema, boolean isHashed, String preset)
            throws SiltstoneException;

    static native void waitForSchema(long keyspace) throws SiltstoneException;

    static native boolean cancelSchemaChange(long keyspace) throws SiltstoneException;

    static native long approximateLength(long keyspace) throws SiltstoneException;

    static native long ingest(long keyspace, ByteBuffer puts, int length) throws SiltstoneException;

    static native String keyspaceStats(long keyspace) throws SiltstoneException;

    static native long[] keyspaceFigures(long keyspace) throws SiltstoneException;

    static native long[] keyspaceJobs(long keyspace) throws SiltstoneException;

    static native long iterate(long keyspace, long snapshot, boolean isReverse, boolean keysOnly)
            throws SiltstoneException;

    static native long iterateGroup(long keyspace, long snapshot, byte[] prefix, int fromKind, byte[] from, int toKind,
            byte[] to, boolean isReverse, boolean keysOnly) throws SiltstoneException;

    static native byte[] nextBlock(long iterator, int bytes) throws SiltstoneException;

    static native void release(int kind, long number);

    static native long openHandles();
}
