package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import io.siltstone.Batch;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.GlobalProcessorContextImpl;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.CachingWindowStore;
import org.apache.kafka.streams.state.internals.LegacyCheckpointingStateStore;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Offsets, marks of uncommitted writes, restoring, segments, and what the stores of one task share. */
class CommitAndRestoreTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("app-store-changelog", 0);

    @TempDir
    Path directory;

    private InternalMockProcessorContext<?, ?> context(boolean exactlyOnce) {
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, 64 << 20);
        if (exactlyOnce) {
            config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        }
        File task = directory.resolve("app").resolve("0_0").toFile();
        return new InternalMockProcessorContext<>(task, Serdes.ByteArray(), Serdes.ByteArray(),
                new StreamsConfig(config));
    }

    private static Bytes key(String text) {
        return Bytes.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] value(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private KeyValueStore<Bytes, byte[]> open(String name, boolean exactlyOnce) {
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore(name).get();
        store.init(context(exactlyOnce), store);
        return store;
    }

    /** A store that was closed in order holds a, which is 1, as of the changelog's offset 1. */
    private void leaveOneItem(boolean exactlyOnce) {
        KeyValueStore<Bytes, byte[]> store = open("store", exactlyOnce);
        store.put(key("a"), value("1"));
        store.commit(Map.of(CHANGELOG, 1L));
        store.close();
    }

    @Test
    @SuppressWarnings("deprecation")
    void offsetsComeBackWithTheData() {
        KeyValueStore<Bytes, byte[]> store = open("store", false);
        assertTrue(store.managesOffsets());
        assertNull(store.committedOffset(CHANGELOG));
        store.put(key("a"), value("1"));
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        store = open("store", false);
        assertEquals(7L, store.committedOffset(CHANGELOG));
        assertArrayEquals(value("1"), store.get(key("a")));
        store.commit(Map.of());
        assertNull(store.committedOffset(CHANGELOG));
        store.close();
    }

    /** Stores without a changelog say so at each commit, which costs no more where a task has many and many were made. */
    @Test
    @Timeout(60)
    void commitsWithoutOffsetsAreCheap() {
        List<KeyValueStore<Bytes, byte[]>> stores = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            stores.add(open("store" + i, false));
        }
        for (int commit = 0; commit < 2000; commit++) {
            for (KeyValueStore<Bytes, byte[]> store : stores) {
                store.put(key("a"), value("" + commit));
                store.commit(Map.of());
            }
        }
        // Those that come in between are deleted all the same, also after the store was opened again.
        for (int round = 0; round < 2; round++) {
            stores.get(7).commit(Map.of(CHANGELOG, 7L));
            assertEquals(7L, stores.get(7).committedOffset(CHANGELOG));
            if (round == 1) {
                stores.get(7).close();
                stores.set(7, open("store7", false));
            }
            stores.get(7).commit(Map.of());
            assertNull(stores.get(7).committedOffset(CHANGELOG));
        }
        stores.forEach(KeyValueStore::close);
    }

    /** A copy of the files while the store is open is what a process leaves that is killed. */
    @Test
    void writesOfAnUnfinishedTransactionMakeTheTaskCorrupted() throws Exception {
        leaveOneItem(true);
        KeyValueStore<Bytes, byte[]> store = open("store", true);
        assertArrayEquals(value("1"), store.get(key("a")));
        // Not enough to reach the engine: what is left is what was committed.
        store.put(key("a"), value("2"));
        store.close();
        store = open("store", true);
        assertArrayEquals(value("1"), store.get(key("a")));
        // An iterator over it brings it there.
        store.put(key("a"), value("3"));
        store.all().close();
        store.close();
        assertThrows(TaskCorruptedException.class, () -> open("store", true));
        // Without exactly-once it is as good as any.
        store = open("store", false);
        assertArrayEquals(value("3"), store.get(key("a")));
        store.close();
    }

    /** Global stores take part in no transaction: one that was killed reads its topics again, over what it has. */
    @Test
    void aGlobalStoreIsNeverCorrupted() {
        InternalMockProcessorContext<?, ?> other = context(true);
        GlobalProcessorContextImpl context = mock(GlobalProcessorContextImpl.class);
        when(context.appConfigs()).thenReturn(other.appConfigs());
        when(context.stateDir()).thenReturn(other.stateDir());
        when(context.taskId()).thenReturn(new TaskId(-1, -1));
        when(context.metrics()).thenReturn(other.metrics());
        when(context.recordMetadata()).thenReturn(Optional.empty());
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store").get();
        for (String written : new String[] {"1", "2"}) {
            store.init(context, store);
            store.put(key("a"), value(written));
            store.all().close();
            store.close();
        }
        store.init(context, store);
        assertArrayEquals(value("2"), store.get(key("a")));
        store.close();
    }

    @Test
    void restoredWritesLeaveNoMark() {
        InternalMockProcessorContext<?, ?> context = context(true);
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store").get();
        store.init(context, store);
        List<KeyValue<byte[], byte[]>> changelog = new ArrayList<>();
        for (int i = 0; i < 5000; i++) {
            changelog.add(new KeyValue<>(value("key" + i), new byte[100]));
        }
        changelog.add(new KeyValue<>(value("key7"), null));
        context.restore("store", changelog);
        store.close();
        store = open("store", true);
        assertNull(store.get(key("key7")));
        assertArrayEquals(new byte[100], store.get(key("key8")));
        try (KeyValueIterator<Bytes, byte[]> all = store.all()) {
            int count = 0;
            for (Bytes last = null; all.hasNext(); count++) {
                Bytes next = all.next().key;
                assertTrue(last == null || last.compareTo(next) < 0);
                last = next;
            }
            assertEquals(4999, count);
        }
        store.close();
    }

    /** What Kafka 4.2 and before wrote down of RocksDB's stores, in the directory of a task that is now one of these. */
    @Test
    void offsetsOfOtherStoresAreNotTaken() throws Exception {
        InternalMockProcessorContext<?, ?> context = context(false);
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        StateDirectory states = new StateDirectory(new StreamsConfig(config), Time.SYSTEM, true, false);
        File earlier = new File(states.getOrCreateDirectoryForTask(new TaskId(0, 0)), ".checkpoint");
        assertEquals(context.stateDir(), earlier.getParentFile());
        for (Long own : new Long[] {null, 5L}) {
            KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store").get();
            new OffsetCheckpoint(earlier).write(Map.of(CHANGELOG, 100L));
            store.init(context, store);
            LegacyCheckpointingStateStore.migrateLegacyOffsets("", states, new TaskId(0, 0), Map.of(CHANGELOG, store));
            assertFalse(earlier.exists());
            assertEquals(own, store.committedOffset(CHANGELOG));
            store.commit(Map.of(CHANGELOG, 5L));
            assertEquals(5L, store.committedOffset(CHANGELOG));
            store.close();
        }
    }

    /** A process that is killed while it restores goes on after the last batch. */
    @Test
    void restoredBatchesHaveTheirOffset() {
        InternalMockProcessorContext<?, ?> context = context(true);
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store").get();
        store.init(context, store);
        context.restoreWithHeaders("store",
                List.of(new ConsumerRecord<>(CHANGELOG.topic(), 0, 41, value("a"), value("1")),
                        new ConsumerRecord<>(CHANGELOG.topic(), 0, 43, value("b"), value("2"))));
        context.restoreWithHeaders("store", List.of());
        store.close();
        store = open("store", true);
        assertEquals(43L, store.committedOffset(CHANGELOG));
        assertArrayEquals(value("2"), store.get(key("b")));
        store.close();
    }

    @Test
    void aSessionStoreIsRestored() {
        InternalMockProcessorContext<?, ?> context = context(false);
        SessionStore<Bytes, byte[]> store = SiltstoneStores.sessionStore("sessions", Duration.ofHours(1)).get();
        store.init(context, store);
        List<KeyValue<byte[], byte[]>> changelog = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            Bytes session = SessionKeySchema.toBinary(new Windowed<>(key("a"), new SessionWindow(i * 10L, i * 10L)));
            changelog.add(new KeyValue<>(session.get(), value("" + i)));
        }
        context.restore("sessions", changelog);
        try (KeyValueIterator<Windowed<Bytes>, byte[]> found = store.fetch(key("a"))) {
            for (int i = 0; i < 4; i++) {
                KeyValue<Windowed<Bytes>, byte[]> next = found.next();
                assertEquals(i * 10L, next.key.window().start());
                assertArrayEquals(value("" + i), next.value);
            }
            assertFalse(found.hasNext());
        }
        store.close();
    }

    @Test
    void segmentsAreDroppedAtRetention() {
        WindowStore<Bytes, byte[]> store =
                SiltstoneStores.windowStore("windows", Duration.ofMinutes(4), Duration.ofMinutes(1), false).get();
        store.init(context(false), store);
        SiltstoneWindowStore windows = (SiltstoneWindowStore) store;
        for (int minute = 0; minute < 60; minute++) {
            store.put(key("a"), value("" + minute), minute * 60_000L);
            assertTrue(windows.segmentCount() <= 4);
            assertEquals(windows.segmentCount() + 1, windows.task().store().isOpen() ? keyspaces(windows) : 0);
        }
        assertNull(store.fetch(key("a"), 10 * 60_000L));
        assertArrayEquals(value("59"), store.fetch(key("a"), 59 * 60_000L));
        try (KeyValueIterator<Windowed<Bytes>, byte[]> all = store.all()) {
            int count = 0;
            for (; all.hasNext(); all.next()) {
                count++;
            }
            assertEquals(4, count);
        }
        store.close();
    }

    private WindowStore<Bytes, byte[]> openWindows() {
        WindowStore<Bytes, byte[]> store =
                SiltstoneStores.windowStore("windows", Duration.ofMinutes(4), Duration.ofMinutes(1), false).get();
        store.init(context(true), store);
        return store;
    }

    /** What was committed is in the segment that is gone: a replay would begin with nothing. */
    @Test
    @SuppressWarnings("deprecation")
    void aSegmentDroppedInAnUnfinishedTransactionMakesTheTaskCorrupted() {
        WindowStore<Bytes, byte[]> store = openWindows();
        store.put(key("a"), value("1"), 0);
        store.commit(Map.of(CHANGELOG, 1L));
        store.put(key("b"), value("2"), 100 * 60_000L);
        store.close();
        assertThrows(TaskCorruptedException.class, this::openWindows);
    }

    @Test
    @SuppressWarnings("deprecation")
    void aSegmentDroppedInATransactionThatIsCommittedIsGoneForGood() {
        WindowStore<Bytes, byte[]> store = openWindows();
        store.put(key("a"), value("1"), 0);
        store.put(key("b"), value("2"), 100 * 60_000L);
        store.commit(Map.of(CHANGELOG, 2L));
        store.close();
        store = openWindows();
        assertEquals(2L, store.committedOffset(CHANGELOG));
        assertNull(store.fetch(key("a"), 0));
        assertArrayEquals(value("2"), store.fetch(key("b"), 100 * 60_000L));
        store.close();
    }

    @Test
    void aWalkGoesOnWhenSegmentsAreDropped() {
        WindowStore<Bytes, byte[]> store = openWindows();
        for (int minute = 0; minute < 4; minute++) {
            store.put(key("a"), value("" + minute), minute * 60_000L);
        }
        try (KeyValueIterator<Windowed<Bytes>, byte[]> all = store.all()) {
            assertArrayEquals(value("0"), all.next().value);
            store.put(key("b"), value("9"), 100 * 60_000L);
            while (all.hasNext()) {
                all.next();
            }
        }
        store.close();
    }

    private static int keyspaces(SiltstoneWindowStore store) {
        try {
            return store.task().keyspaces().size();
        } catch (io.siltstone.SiltstoneException e) {
            throw new AssertionError(e);
        }
    }

    /** A key that the engine has no place for is refused alone: what came before it and what comes after it is kept. */
    @Test
    void aKeyThatIsTooLongTakesNothingAlong() {
        KeyValueStore<Bytes, byte[]> store = open("store", false);
        store.put(key("a"), value("1"));
        String refused = assertThrows(ProcessorStateException.class,
                () -> store.put(Bytes.wrap(new byte[65_535]), value("2"))).getMessage();
        assertTrue(refused.contains("65534 at most"), refused);
        assertNull(store.get(Bytes.wrap(new byte[70_000])));
        assertNull(store.delete(Bytes.wrap(new byte[70_000])));
        byte[] longest = new byte[65_534];
        store.put(Bytes.wrap(longest), value("3"));
        store.commit(Map.of());
        assertArrayEquals(value("1"), store.get(key("a")));
        assertArrayEquals(value("3"), store.get(Bytes.wrap(longest)));
        assertEquals(2, count(store.all()));
        store.close();
    }

    /** Closing fails where the last writes can't be kept, and lets go of everything all the same. */
    @Test
    void aStoreThatCannotWriteIsClosed() throws Exception {
        KeyValueStore<Bytes, byte[]> store = open("store", false);
        store.put(key("a"), value("1"));
        ((BaseStore) store).task().store().dropKeyspace(((BaseStore) store).keyspaceName());
        assertThrows(ProcessorStateException.class, store::close);
        assertFalse(store.isOpen());
        assertEquals(0, SiltstoneStores.budgetBytes());
        store.close();
        KeyValueStore<Bytes, byte[]> again = open("store", false);
        assertNull(again.get(key("a")));
        again.close();
    }

    /** As Kafka does with a task that was corrupted: the same store, in a directory that was removed. */
    @Test
    @SuppressWarnings("deprecation")
    void aStoreThatIsOpenedAgainKnowsNothingOfBefore() throws Exception {
        InternalMockProcessorContext<?, ?> context = context(true);
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store").get();
        store.init(context, store);
        context.setRecordContext(new ProcessorRecordContext(0, 7, 0, "topic", new RecordHeaders()));
        store.put(key("a"), value("1"));
        store.commit(Map.of(CHANGELOG, 1L));
        assertEquals(Map.of(0, 7L), store.getPosition().getPartitionPositions("topic"));
        assertThrows(ProcessorStateException.class, () -> store.init(context, store));
        store.close();
        Utils.delete(directory.resolve("app").resolve("0_0").toFile());
        store.init(context, store);
        assertTrue(store.getPosition().isEmpty());
        assertNull(store.committedOffset(CHANGELOG));
        assertNull(store.get(key("a")));
        store.close();
        assertEquals(0, SiltstoneStores.budgetBytes());
    }

    /** What helps is what Kafka can do, and not what the engine says to those who keep a store by themselves. */
    @Test
    void aDamagedDirectoryIsToBeDeleted() throws Exception {
        leaveOneItem(false);
        Path engine = directory.resolve("app").resolve("0_0").resolve(TaskStore.DIRECTORY);
        Files.writeString(engine.resolve("CURRENT"), "nonsense");
        String refused = assertThrows(ProcessorStateException.class, () -> open("store", false)).getMessage();
        assertTrue(refused.contains(engine.toString()) && refused.contains("delete this directory"), refused);
        assertEquals(0, SiltstoneStores.budgetBytes());
        Utils.delete(engine.toFile());
        KeyValueStore<Bytes, byte[]> store = open("store", false);
        assertNull(store.get(key("a")));
        store.close();
    }

    /** Two stores of one name and kind would each miss what waits in the other. RocksDB refuses by its lock. */
    @Test
    void aStoreIsOpenOnce() {
        KeyValueStore<Bytes, byte[]> store = open("store", false);
        store.put(key("a"), value("1"));
        String refused = assertThrows(ProcessorStateException.class, () -> open("store", false)).getMessage();
        assertTrue(refused.contains("State store k/store in "), refused);
        assertThrows(ProcessorStateException.class, () -> open("store", true));
        // Not of another kind either.
        assertThrows(ProcessorStateException.class, () -> openTimestamped("store"));
        // The one that was refused takes nothing along.
        assertArrayEquals(value("1"), store.get(key("a")));
        store.commit(Map.of());
        store.close();
        KeyValueStore<Bytes, byte[]> again = open("store", false);
        assertArrayEquals(value("1"), again.get(key("a")));
        again.close();
        // Of windows it is so for each segment: Kafka's suites have two open that hold nothing.
        WindowStore<Bytes, byte[]> windows = openWindows();
        WindowStore<Bytes, byte[]> second = openWindows();
        windows.put(key("a"), value("1"), 0);
        assertThrows(ProcessorStateException.class, () -> second.put(key("b"), value("2"), 1));
        second.close();
        assertThrows(ProcessorStateException.class, this::openWindows);
        assertArrayEquals(value("1"), windows.fetch(key("a"), 0));
        windows.commit(Map.of());
        windows.close();
        openWindows().close();
        assertEquals(0, SiltstoneStores.budgetBytes());
    }

    private KeyValueStore<Bytes, byte[]> openTimestamped(String name) {
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.timestampedKeyValueStore(name).get();
        store.init(context(false), store);
        return store;
    }

    /** A store of another kind begins again, and so does the first one after it: each would miss what came between. */
    @Test
    void aStoreThatComesBackToAKindBeginsAgain() throws Exception {
        KeyValueStore<Bytes, byte[]> bystander = open("store2", false);
        bystander.put(key("a"), value("0"));
        bystander.commit(Map.of(CHANGELOG, 3L));
        for (int round = 0; round < 2; round++) {
            KeyValueStore<Bytes, byte[]> store = open("store", false);
            assertNull(store.committedOffset(CHANGELOG));
            assertNull(store.get(key("a")));
            store.put(key("a"), value("1"));
            store.commit(Map.of(CHANGELOG, 7L));
            store.close();
            KeyValueStore<Bytes, byte[]> other = openTimestamped("store");
            assertNull(other.committedOffset(CHANGELOG));
            assertNull(other.get(key("a")));
            other.put(key("a"), value("2"));
            other.commit(Map.of(CHANGELOG, 9L));
            assertEquals(List.of("k/store2", "kafka-streams", "kt/store"),
                    ((BaseStore) other).task().keyspaces().stream().sorted().toList());
            other.close();
        }
        // Killed before it was removed, what it held as another kind is no newer.
        KeyValueStore<Bytes, byte[]> other = openTimestamped("store");
        assertEquals(9L, other.committedOffset(CHANGELOG));
        TaskStore task = ((BaseStore) other).task();
        task.store().write(new Batch().put(task.meta(), "*/store/kind/".getBytes(StandardCharsets.UTF_8),
                "k".getBytes(StandardCharsets.UTF_8)));
        other.close();
        other = openTimestamped("store");
        assertNull(other.committedOffset(CHANGELOG));
        assertNull(other.get(key("a")));
        other.close();
        assertEquals(3L, bystander.committedOffset(CHANGELOG));
        assertArrayEquals(value("0"), bystander.get(key("a")));
        bystander.close();
    }

    /** One that is opened again by mistake, under a cache that it did not have, stays of the kind that it is. */
    @Test
    void aStoreThatIsOpenStaysAsItIs() {
        DslWindowParams params = new DslWindowParams("windows", Duration.ofHours(1), Duration.ofMinutes(1), false,
                EmitStrategy.onWindowClose(), false, DslStoreFormat.PLAIN);
        WindowStore<Bytes, byte[]> store = new SiltstoneDslStoreSuppliers().windowStore(params).get();
        store.init(context(false), store);
        assertThrows(ProcessorStateException.class,
                () -> store.init(context(false), mock(CachingWindowStore.class)));
        store.put(key("a"), value("1"), 0);
        store.put(key("a"), value("2"), Duration.ofHours(3).toMillis());
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        WindowStore<Bytes, byte[]> again = new SiltstoneDslStoreSuppliers().windowStore(params).get();
        again.init(context(false), again);
        assertEquals(7L, again.committedOffset(CHANGELOG));
        assertArrayEquals(value("2"), again.fetch(key("a"), Duration.ofHours(3).toMillis()));
        again.close();
    }

    @Test
    void theStoresOfATaskAreOneEngineStore() {
        KeyValueStore<Bytes, byte[]> one = open("one", false);
        KeyValueStore<Bytes, byte[]> two = open("two", false);
        one.put(key("a"), value("1"));
        one.commit(Map.of());
        assertNull(two.get(key("a")));
        assertEquals(64 << 20, SiltstoneStores.budgetBytes());
        assertTrue(SiltstoneStores.memoryBytes() > 0);
        assertEquals(((BaseStore) one).task(), ((BaseStore) two).task());
        one.close();
        two.put(key("a"), value("2"));
        two.close();
        assertEquals(0, SiltstoneStores.budgetBytes());
    }

    /** Empty keys, prefixes that end in 0xFF, and a prefix that is another's first part. */
    @Test
    void rangesAndPrefixesAreExact() {
        KeyValueStore<Bytes, byte[]> store = open("store", false);
        byte[][] keys = {{}, {0}, {1}, {1, 0}, {1, (byte) 0xFF}, {1, (byte) 0xFF, (byte) 0xFF}, {2}, {(byte) 0xFF},
            {(byte) 0xFF, 3}};
        for (byte[] key : keys) {
            store.put(Bytes.wrap(key), new byte[] {(byte) key.length});
        }
        assertArrayEquals(new byte[] {0}, store.get(Bytes.wrap(new byte[0])));
        assertEquals(4, count(store.prefixScan(new byte[] {1}, Serdes.ByteArray().serializer())));
        assertEquals(2, count(store.prefixScan(new byte[] {1, (byte) 0xFF}, Serdes.ByteArray().serializer())));
        assertEquals(2, count(store.prefixScan(new byte[] {(byte) 0xFF}, Serdes.ByteArray().serializer())));
        assertEquals(9, count(store.prefixScan(new byte[0], Serdes.ByteArray().serializer())));
        assertEquals(3, count(store.range(null, Bytes.wrap(new byte[] {1}))));
        assertEquals(3, count(store.reverseRange(Bytes.wrap(new byte[] {2}), null)));
        assertEquals(9, count(store.reverseAll()));
        store.close();
    }

    private static int count(KeyValueIterator<Bytes, byte[]> items) {
        int count = 0;
        try (items) {
            for (; items.hasNext(); items.next()) {
                count++;
            }
        }
        return count;
    }

    /** By the names that RocksDB's metrics have, in the group and with the tags that they have. */
    @Test
    void metricsHaveKafkasNames() {
        InternalMockProcessorContext<?, ?> context = context(false);
        KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store").get();
        store.init(context, store);
        for (int i = 0; i < 1000; i++) {
            store.put(key("key" + i), new byte[100]);
        }
        store.commit(Map.of(CHANGELOG, 1000L));
        assertEquals(1000, metric(context, "estimate-num-keys"));
        assertEquals(1000, metric(context, "num-entries-active-mem-table"));
        assertTrue(metric(context, "size-all-mem-tables") > 100_000);
        assertEquals(64 << 20, metric(context, "block-cache-capacity"));
        assertTrue(metric(context, "block-cache-usage") >= metric(context, "size-all-mem-tables"));
        assertEquals(0, metric(context, "total-sst-files-size"));
        store.close();
        assertEquals(0, metric(context, "estimate-num-keys"));
    }

    private static long metric(InternalMockProcessorContext<?, ?> context, String name) {
        return context.metrics().metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals(name)
                        && metric.getKey().group().equals("stream-state-metrics")
                        && "store".equals(metric.getKey().tags().get("siltstone-state-id")))
                .mapToLong(metric -> (Long) metric.getValue().metricValue()).findFirst().orElseThrow();
    }
}
