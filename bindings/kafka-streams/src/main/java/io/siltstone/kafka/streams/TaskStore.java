package io.siltstone.kafka.streams;

import io.siltstone.Batch;
import io.siltstone.KeyIterator;
import io.siltstone.Keyspace;
import io.siltstone.KeyspaceOptions;
import io.siltstone.Options;
import io.siltstone.Range;
import io.siltstone.Resources;
import io.siltstone.SiltstoneException;
import io.siltstone.Store;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one engine store of a task's directory, which the task's state stores share as long as any of them is open, with
 * what all such stores of the process share: one budget of memory, one pool of threads.
 *
 * <p>It lies in the task's directory, so Kafka's locks on that directory and its cleaning hold for it too.
 */
final class TaskStore {
    /** Sorts by the whole key: the prefix is the one byte that every key begins with, so all are one group. */
    static final String BYTE_ORDER = "fixed:1";
    static final String DIRECTORY = "siltstone";

    private static final Logger LOG = LoggerFactory.getLogger(TaskStore.class);
    static final String META = "kafka-streams";
    /** Of each task, so that many of them take little of the disk for logs. */
    private static final long LOG_BYTES = 64L << 20;
    private static final Map<Path, TaskStore> OPEN = new HashMap<>();
    private static Resources resources;
    private static SiltstoneConfig.Values values;

    private final Path path;
    private final Store store;
    private final Keyspace meta;
    private final Map<String, Table> tables = new ConcurrentHashMap<>();
    /** Takes what a store writes over to the engine, of one store after the other: each would keep a buffer otherwise. */
    private final Batch batch = new Batch();
    private int users;

    private TaskStore(Path path, Store store) throws SiltstoneException {
        this.path = path;
        this.store = store;
        this.meta = store.keyspace(META);
    }

    /** Opens the store of a task's directory, or joins those who have it open. */
    static TaskStore acquire(File taskDirectory, Map<String, ?> configs) {
        synchronized (OPEN) {
            Path path = taskDirectory.toPath().toAbsolutePath().normalize().resolve(DIRECTORY);
            TaskStore task = OPEN.get(path);
            if (task == null) {
                task = open(path, configs);
                OPEN.put(path, task);
            }
            task.users++;
            return task;
        }
    }

    private static TaskStore open(Path path, Map<String, ?> configs) {
        TaskStore opened = null;
        try {
            Files.createDirectories(path.getParent());
            share(SiltstoneConfig.Values.of(configs));
            Options options = new Options().resources(resources).maxLogBytes(LOG_BYTES)
                    .syncInterval(Duration.ofSeconds(1));
            Store store = Store.open(path, options);
            try {
                opened = new TaskStore(path, store);
                return opened;
            } catch (SiltstoneException | RuntimeException e) {
                store.close();
                throw e;
            }
        } catch (IOException e) {
            throw new ProcessorStateException("Error opening the Siltstone store in " + path + whatToDo(e), e);
        } finally {
            if (opened == null) {
                unshare();
            }
        }
    }

    /** What helps, where the engine speaks to people who keep a store by themselves. */
    private static String whatToDo(IOException failure) {
        if (!(failure instanceof SiltstoneException e)) {
            return "";
        }
        return switch (e.kind()) {
            case CORRUPTION, NOT_A_STORE -> "; it is damaged: stop the application and delete this directory, and Kafka"
                    + " restores the task from its changelogs, apart from stores that have none";
            case LOCKED -> "; another process has this state directory: give each instance on a machine its own "
                    + StreamsConfig.STATE_DIR_CONFIG;
            case STORAGE_FULL -> "; make room on its disk, and start the application again";
            default -> "";
        };
    }

    private static void share(SiltstoneConfig.Values asked) throws SiltstoneException {
        if (resources == null) {
            resources = new Resources(asked.memoryBytes(), asked.threads(), asked.maxOpenFiles());
            values = asked;
            LOG.info("Siltstone's stores of this process share {}", values);
        } else if (!asked.equals(values)) {
            LOG.warn("The stores of this process share {}; what another application asks for is not done: {}", values,
                    asked);
        }
    }

    private static void unshare() {
        if (OPEN.isEmpty() && resources != null) {
            resources.close();
            resources = null;
        }
    }

    /** Returns the bytes that all stores of the process hold, or 0 where none is open. */
    static long memoryBytes() {
        synchronized (OPEN) {
            return resources == null ? 0 : resources.memoryBytes();
        }
    }

    /** Returns the bytes that they may hold, or 0 where none is open. */
    static long budgetBytes() {
        synchronized (OPEN) {
            return resources == null ? 0 : resources.budgetBytes();
        }
    }

    /** Returns how many files are kept open for reading. */
    static long openFiles() {
        synchronized (OPEN) {
            return resources == null ? 0 : resources.openFiles();
        }
    }

    /** Leaves the store, which is closed by the last one who does. */
    void release() {
        synchronized (OPEN) {
            if (--users > 0) {
                return;
            }
            shut();
        }
    }

    private void shut() {
        OPEN.remove(path, this);
        try {
            store.close();
        } catch (SiltstoneException e) {
            throw new ProcessorStateException("Error closing the Siltstone store in " + path, e);
        } finally {
            unshare();
        }
    }

    /** Closes one of those that are open, whoever uses it, and returns where it is; null where none is. For tests. */
    static Path shutOne() {
        synchronized (OPEN) {
            if (OPEN.isEmpty()) {
                return null;
            }
            TaskStore task = OPEN.values().iterator().next();
            task.shut();
            return task.path;
        }
    }

    Store store() {
        return store;
    }

    /** Writes what is put into the batch that it is given, together or not at all. */
    void write(Consumer<Batch> writes) throws SiltstoneException {
        synchronized (batch) {
            try {
                writes.accept(batch);
                store.write(batch);
            } finally {
                batch.clear();
            }
        }
    }

    /** Where offsets, positions and marks of all stores are. */
    Keyspace meta() {
        return meta;
    }

    /** Returns the keys there that begin so. */
    List<byte[]> metaKeys(byte[] start) throws SiltstoneException {
        List<byte[]> keys = new ArrayList<>();
        try (KeyIterator items = meta.iterate(new Range().keysOnly())) {
            while (items.next()) {
                byte[] key = items.key();
                if (key.length >= start.length && Arrays.mismatch(key, 0, start.length, start, 0, start.length) < 0) {
                    keys.add(key);
                }
            }
        }
        return keys;
    }

    /**
     * Opens a keyspace for one state store, until the table is closed. Two would each miss what waits in the other, so
     * a second one is refused, as RocksDB does by its lock of a store or segment.
     *
     * @param order how the table's keys by time are made; null where it is not walked by time
     */
    Table table(String name, TimeOrder order) throws SiltstoneException {
        Keyspace keyspace = store.keyspace(name, new KeyspaceOptions().schema(BYTE_ORDER));
        Table table = new Table(keyspace, order, closed -> tables.remove(name, closed));
        if (tables.putIfAbsent(name, table) != null) {
            table.close();
            throw isOpen(name);
        }
        return table;
    }

    private ProcessorStateException isOpen(String name) {
        return new ProcessorStateException("State store " + name + " in " + path
                + " is open; close it before it is opened again");
    }

    /** Refuses where somebody has that table open. */
    void checkClosed(String name) {
        if (tables.containsKey(name)) {
            throw isOpen(name);
        }
    }

    List<String> keyspaces() throws SiltstoneException {
        return store.keyspaces();
    }
}
