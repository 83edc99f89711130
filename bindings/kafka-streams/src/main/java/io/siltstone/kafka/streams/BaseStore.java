package io.siltstone.kafka.streams;

import io.siltstone.Batch;
import io.siltstone.Keyspace;
import io.siltstone.SiltstoneException;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.GlobalProcessorContextImpl;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.LegacyCheckpointingStateStore;
import org.apache.kafka.streams.state.internals.PositionSerde;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/**
 * What key-value, window and session stores have in common: writes gathered into batches, offsets, restoring.
 *
 * <p>Writes wait in Java until there are some, then one atomic batch takes them. A commit is such a batch too, with the
 * changelog's offsets and the position in it: what the engine holds never lags behind the offset that stands beside it.
 *
 * <p>Under exactly-once, writes may reach the engine before Kafka's transaction commits. The batch that brings the first
 * of them sets a mark, and the batch of the commit removes it. A store that is opened with the mark says that its task is
 * corrupted, so that Kafka restores it from the changelog; one that was restoring or standing by has no mark and goes on
 * from its offset.
 */
abstract class BaseStore implements StateStore {
    /** Bytes of writes that may wait. */
    private static final int MOST_WAITING_BYTES = 256 << 10;
    private static final byte[] SET = {1};
    static final String MARK = "uncommitted";

    private final String name;
    private String kind;
    private final Set<RawIterator> iterators = ConcurrentHashMap.newKeySet();
    private final Traffic traffic = new Traffic();
    /** What the next batch does beside the tables' writes; null deletes. */
    private final TreeMap<byte[], byte[]> metaWrites = new TreeMap<>(Arrays::compareUnsigned);
    private volatile Position position = Position.emptyPosition();
    private TaskStore task;
    private StateStoreContext context;
    private boolean isGlobal;
    private boolean isExactlyOnce;
    private boolean isMarked;
    private boolean mayBeMigrated;
    private boolean mayHaveOffsets;
    private boolean checksConsistency;
    private int waitingBytes;
    private volatile boolean isOpen;

    /**
     * @param kind tells formats apart: what one wrote is nothing to another, which is then restored from the changelog.
     *             It is short, since the engine's names have 255 bytes and Kafka's may have 249
     */
    BaseStore(String name, String kind) {
        this.name = name;
        this.kind = kind;
    }

    /** Says which kind it is, before it is opened, where that was not known when it was made. */
    final void becomeKind(String known) {
        kind = known;
    }

    /** Sees who opens it, while it is closed. */
    void beforeOpen(StateStoreContext stateStoreContext, StateStore root) {}

    /** Opens what there is in the task's store. */
    abstract void openTables() throws SiltstoneException;

    /** All tables that are open. */
    abstract Collection<Table> tables();

    /** Adds what a record of the changelog says; its value may be null. */
    abstract void restore(byte[] key, byte[] value) throws SiltstoneException;

    /** Closes all tables. */
    abstract void closeTables();

    @Override
    public synchronized void init(StateStoreContext stateStoreContext, StateStore root) {
        if (isOpen) {
            throw new ProcessorStateException("Store " + name + " is open; close it before it is opened again");
        }
        beforeOpen(stateStoreContext, root);
        context = stateStoreContext;
        Map<String, Object> configs = stateStoreContext.appConfigs();
        // Global stores take part in no transaction: what they hold is in their topics, and is read there again.
        isGlobal = stateStoreContext instanceof GlobalProcessorContextImpl;
        isExactlyOnce = !isGlobal
                && StreamsConfig.EXACTLY_ONCE_V2.equals(configs.get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG));
        checksConsistency = StreamsConfig.InternalConfig.getBoolean(configs,
                StreamsConfig.InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED, false);
        task = TaskStore.acquire(stateStoreContext.stateDir(), configs);
        try {
            openState();
        } catch (SiltstoneException e) {
            leave();
            throw failure("Error opening store " + name, e);
        } catch (RuntimeException e) {
            leave();
            throw e;
        }
        isOpen = true;
        StoreMetrics.register(this, stateStoreContext);
        stateStoreContext.register(root, (RecordBatchingStateRestoreCallback) this::restoreAll, () -> { });
    }

    private void openState() throws SiltstoneException {
        StoreKind.set(task, name, kind);
        if (task.meta().contains(markKey()) && isExactlyOnce) {
            throw new TaskCorruptedException(Set.of(context.taskId()), new ProcessorStateException("Store " + name
                    + " holds writes of a transaction that may not have been committed; it is restored"));
        }
        isMarked = false;
        mayBeMigrated = true;
        mayHaveOffsets = true;
        byte[] stored = task.meta().get(metaKey("position", ""));
        position = stored == null ? Position.emptyPosition() : PositionSerde.deserialize(ByteBuffer.wrap(stored));
        openTables();
    }

    /** Lets go of the task's store, whatever else fails. */
    private void leave() {
        TaskStore left = task;
        task = null;
        waitingBytes = 0;
        try {
            closeTables();
        } finally {
            left.release();
        }
    }

    // Writing. All of it under the lock of this store.

    /** Adds a write of the application; a null value deletes. */
    final void write(Table table, byte[] key, byte[] value) {
        StoreQueryUtils.updatePosition(position, context);
        traffic.wrote(key, value);
        waitingBytes += table.add(key, value);
        if (waitingBytes > MOST_WAITING_BYTES) {
            flushWaiting();
        }
    }

    /** Adds a write of the changelog. */
    final void writeRestored(Table table, byte[] key, byte[] value) throws SiltstoneException {
        traffic.wrote(key, value);
        waitingBytes += table.add(key, value);
        if (waitingBytes > MOST_WAITING_BYTES) {
            writeBatch();
        }
    }

    /** Brings writes of the application to the engine. */
    final void flushWaiting() {
        if (waitingBytes == 0) {
            return;
        }
        boolean marks = isExactlyOnce && !isMarked;
        try {
            if (marks) {
                metaWrites.put(markKey(), SET);
            }
            writeBatch();
            isMarked |= marks;
        } catch (SiltstoneException e) {
            throw failure("Error while writing to store " + name, e);
        }
    }

    /**
     * Marks the task as one with an unfinished transaction, on the device, before something is done that is in no
     * batch and that a replay of the transaction would miss.
     */
    final void markUnfinished() throws SiltstoneException {
        if (isExactlyOnce && !isMarked) {
            metaWrites.put(markKey(), SET);
            writeBatch();
            task.store().sync();
            isMarked = true;
        }
    }

    /** Writes what waits, as one batch. */
    private void writeBatch() throws SiltstoneException {
        try {
            task.write(this::addTo);
        } finally {
            metaWrites.clear();
        }
        tables().forEach(Table::written);
        waitingBytes = 0;
    }

    private void addTo(Batch batch) {
        tables().forEach(table -> table.addTo(batch));
        metaWrites.forEach((key, value) -> {
            if (value == null) {
                batch.delete(task.meta(), key);
            } else {
                batch.put(task.meta(), key, value);
            }
        });
    }

    private void restoreAll(Collection<ConsumerRecord<byte[], byte[]>> records) {
        synchronized (this) {
            try {
                beforeRestore(records);
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(record, checksConsistency,
                            position);
                    restore(record.key(), record.value());
                }
                putProgress(records);
                writeBatch();
            } catch (SiltstoneException e) {
                throw failure("Error restoring batch to store " + name, e);
            }
        }
    }

    /** Adds how far the changelog was read, as a commit does. Global stores count otherwise, and read their batch again. */
    private void putProgress(Collection<ConsumerRecord<byte[], byte[]>> records) {
        ConsumerRecord<byte[], byte[]> last = null;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            last = record;
        }
        if (last != null && !isGlobal) {
            putOffset(new TopicPartition(last.topic(), last.partition()), last.offset());
            putPosition();
        }
    }

    private void putOffset(TopicPartition partition, long offset) {
        mayHaveOffsets = true;
        metaWrites.put(offsetKey(partition), ByteBuffer.allocate(Long.BYTES).putLong(offset).array());
    }

    /**
     * Whether the offsets of a commit are those of a file that earlier versions of Kafka left for their stores. Kafka
     * hands them over before anything else, and then removes the file. Offsets of these stores were never in it: a
     * store that took them would miss all that came before.
     */
    private boolean areOfAnotherStore() {
        if (mayBeMigrated) {
            mayBeMigrated =
                    new File(context.stateDir(), LegacyCheckpointingStateStore.CHECKPOINT_FILE_NAME).exists();
        }
        return mayBeMigrated;
    }

    private void putPosition() {
        metaWrites.put(metaKey("position", ""), PositionSerde.serialize(position).array());
    }

    /** Sees the records before they are restored. */
    void beforeRestore(Collection<ConsumerRecord<byte[], byte[]>> records) {}

    @Override
    public synchronized void commit(Map<TopicPartition, Long> changelogOffsets) {
        if (!isOpen) {
            return;
        }
        try {
            // So are all commits of a store without a changelog: its offsets are looked for once.
            boolean hasNone = changelogOffsets.isEmpty();
            if (hasNone && mayHaveOffsets) {
                for (byte[] key : task.metaKeys(metaKey("offset", ""))) {
                    metaWrites.put(key, null);
                }
            }
            if (!areOfAnotherStore()) {
                for (Map.Entry<TopicPartition, Long> entry : changelogOffsets.entrySet()) {
                    if (entry.getValue() == null) {
                        metaWrites.put(offsetKey(entry.getKey()), null);
                    } else {
                        putOffset(entry.getKey(), entry.getValue());
                    }
                }
            }
            putPosition();
            metaWrites.put(markKey(), null);
            writeBatch();
            isMarked = false;
            mayHaveOffsets &= !hasNone;
        } catch (SiltstoneException e) {
            throw failure("Error while executing commit from store " + name, e);
        } finally {
            metaWrites.clear();
        }
    }

    @Override
    @Deprecated
    public boolean managesOffsets() {
        return true;
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        validateOpen();
        try {
            byte[] stored = task.meta().get(offsetKey(partition));
            return stored == null ? null : Long.valueOf(ByteBuffer.wrap(stored).getLong());
        } catch (SiltstoneException e) {
            throw failure("Error while getting the committed offset of " + partition
                    + " from store " + name, e);
        }
    }

    final byte[] metaKey(String what, String rest) {
        return (kind + "/" + name + "/" + what + "/" + rest).getBytes(StandardCharsets.UTF_8);
    }

    private byte[] markKey() {
        return metaKey(MARK, "");
    }

    private byte[] offsetKey(TopicPartition partition) {
        return metaKey("offset", partition.toString());
    }

    // Reading.

    /** Returns a key's value: of a write that waits, or what the engine holds. */
    final byte[] read(Table table, byte[] key) {
        synchronized (this) {
            if (table.isWaiting(key)) {
                return traffic.read(table.waiting(key));
            }
        }
        try {
            return traffic.read(table.stored(key));
        } catch (SiltstoneException e) {
            throw failure("Error while getting value for key from store " + name, e);
        } catch (IllegalStateException e) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed", e);
        }
    }

    /** Walks over the keys between two, both included; null is no bound. It is closed with the store. */
    final synchronized KeyValueIterator<Bytes, byte[]> iterate(Table table, byte[] from, byte[] to, boolean isForward) {
        validateOpen();
        if (table.isWaitingWithin(from, to)) {
            flushWaiting();
        }
        return opened(() -> table.iterate(from, to, isForward));
    }

    /** Walks over the items between two times, both included, by time. It is closed with the store. */
    final synchronized KeyValueIterator<Bytes, byte[]> iterateByTime(Table table, long from, long to,
            boolean isForward) {
        validateOpen();
        if (table.count() > 0) {
            flushWaiting();
        }
        return opened(() -> table.iterateByTime(from, to, isForward));
    }

    private interface Opening {
        Items open() throws SiltstoneException;
    }

    private RawIterator opened(Opening items) {
        try {
            RawIterator[] made = new RawIterator[1];
            made[0] = new RawIterator(this, items.open(), () -> iterators.remove(made[0]));
            iterators.add(made[0]);
            return made[0];
        } catch (SiltstoneException e) {
            throw failure("Error while iterating over store " + name, e);
        } catch (IllegalStateException e) {
            throw new InvalidStateStoreException("A segment of store " + name + " was dropped", e);
        }
    }

    /** Returns how many items all open iterators hold in Java's memory. */
    final int heldByIterators() {
        return iterators.stream().mapToInt(RawIterator::held).sum();
    }

    /** Returns how many bytes all open iterators hold in Java's memory. */
    final long bytesOfIterators() {
        return iterators.stream().mapToLong(RawIterator::bytes).sum();
    }

    /** Returns what to throw where the engine failed, and counts it. */
    final ProcessorStateException failure(String what, SiltstoneException cause) {
        traffic.failed(cause);
        return new ProcessorStateException(what, cause);
    }

    /** What went in and out. */
    final Traffic traffic() {
        return traffic;
    }

    /** Returns what background work was done for it since it was opened, and for what was dropped since it was made. */
    final Keyspace.Jobs jobs() throws SiltstoneException {
        // A table that is dropped is in the one or in the other.
        synchronized (traffic) {
            Keyspace.Jobs jobs = traffic.dropped();
            for (Table table : tables()) {
                jobs = jobs.plus(table.keyspace().jobs());
            }
            return jobs;
        }
    }

    final void validateOpen() {
        if (!isOpen) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    @Override
    public synchronized void close() {
        if (!isOpen) {
            return;
        }
        try {
            if (!isExactlyOnce) {
                flushWaiting();
            }
        } finally {
            isOpen = false;
            Set.copyOf(iterators).forEach(RawIterator::close);
            leave();
        }
    }

    @Override
    public final String name() {
        return name;
    }

    /** The name of the keyspace that holds all of it, or what the names of its segments begin with. */
    final String keyspaceName() {
        return kind + "/" + name;
    }

    /** The task's store; an {@link InvalidStateStoreException} where this one is closed. */
    final TaskStore task() {
        TaskStore joined = task;
        if (joined == null) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
        return joined;
    }

    final StateStoreContext context() {
        return context;
    }

    @Override
    public final boolean persistent() {
        return true;
    }

    @Override
    public final boolean isOpen() {
        return isOpen;
    }

    @Override
    public final Position getPosition() {
        return position;
    }

    @Override
    public final <R> QueryResult<R> query(Query<R> query, PositionBound positionBound, QueryConfig config) {
        return StoreQueryUtils.handleBasicQueries(query, positionBound, config, this, position, context);
    }
}
