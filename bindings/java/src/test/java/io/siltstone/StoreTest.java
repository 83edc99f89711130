package io.siltstone;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreTest {
    @TempDir
    Path directory;

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private Store open() throws SiltstoneException {
        return Store.open(directory.resolve("db"), new Options().memoryBytes(16 << 20));
    }

    private static List<String> all(KeyIterator items) throws SiltstoneException {
        List<String> found = new ArrayList<>();
        try (items) {
            while (items.next()) {
                found.add(new String(items.key(), StandardCharsets.UTF_8) + "="
                        + new String(items.value(), StandardCharsets.UTF_8));
            }
        }
        return found;
    }

    @Test
    void whatWasPutIsThereAfterItWasOpenedAgain() throws Exception {
        try (Store store = open()) {
            Keyspace users = store.keyspace("users");
            users.put(bytes("ann"), bytes("42"));
            users.put(bytes("bob"), new byte[0]);
            users.delete(bytes("ann"));
            users.put(bytes("eve"), bytes("7"));
        }
        try (Store store = open()) {
            Keyspace users = store.existingKeyspace("users").orElseThrow();
            assertNull(users.get(bytes("ann")));
            assertArrayEquals(new byte[0], users.get(bytes("bob")));
            assertArrayEquals(bytes("7"), users.get(bytes("eve")));
            assertTrue(users.contains(bytes("eve")));
            assertFalse(users.contains(bytes("ann")));
            List<byte[]> values = users.getMany(List.of(bytes("eve"), bytes("none"), bytes("bob")));
            assertArrayEquals(bytes("7"), values.get(0));
            assertNull(values.get(1));
            assertArrayEquals(new byte[0], values.get(2));
            assertEquals(List.of("users"), store.keyspaces());
            assertTrue(store.existingKeyspace("none").isEmpty());
        }
    }

    @Test
    void aDirectBufferGetsTheValue() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items");
            items.put(bytes("key"), bytes("a value"));
            ByteBuffer into = ByteBuffer.allocateDirect(4);
            assertEquals(7, items.get(bytes("key"), into));
            byte[] got = new byte[4];
            into.get(got);
            assertArrayEquals(bytes("a va"), got);
            assertEquals(-1, items.get(bytes("none"), into));
            assertThrows(IllegalArgumentException.class, () -> items.get(bytes("key"), ByteBuffer.allocate(4)));
        }
    }

    @Test
    void aBatchSpansKeyspaces() throws Exception {
        try (Store store = open()) {
            Keyspace users = store.keyspace("users");
            Keyspace sums = store.keyspace("sums", new KeyspaceOptions().mergeOperator("add"));
            Keyspace files = store.keyspace("files", new KeyspaceOptions().schema("delim:/"));
            files.put(bytes("old/1"), bytes("1"));
            Batch batch = new Batch();
            byte[] one = ByteBuffer.allocate(8).order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(1).array();
            batch.put(users, bytes("a"), bytes("1")).merge(sums, bytes("n"), one).merge(sums, bytes("n"), one)
                    .deletePrefix(files, bytes("old/")).put(files, bytes("new/1"), bytes("2"), Duration.ofHours(1));
            assertEquals(5, batch.count());
            store.write(batch);
            assertArrayEquals(bytes("1"), users.get(bytes("a")));
            assertArrayEquals(ByteBuffer.allocate(8).order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(2).array(),
                    sums.get(bytes("n")));
            assertEquals(List.of("new/1=2"), all(files.iterate()));
            batch.clear();
            store.write(batch);
            // As a whole or not at all: the second key is refused.
            batch.put(users, bytes("b"), bytes("2")).put(users, new byte[0], bytes("3"));
            SiltstoneException refused = assertThrows(SiltstoneException.class, () -> store.write(batch, true));
            assertEquals(SiltstoneException.Kind.BAD_KEY, refused.kind());
            assertNull(users.get(bytes("b")));
        }
    }

    @Test
    void groupsAreWalkedInByteOrderBothWays() throws Exception {
        Random random = new Random(1);
        TreeMap<String, String> expected = new TreeMap<>();
        try (Store store = open()) {
            Keyspace items = store.keyspace("items", new KeyspaceOptions().schema("fixed:1"));
            Batch batch = new Batch();
            for (int i = 0; i < 5000; i++) {
                String key = "k" + random.nextInt(100_000);
                expected.put(key, "v" + i);
                batch.put(items, bytes(key), bytes("v" + i));
            }
            store.write(batch);
            store.flush();
            List<String> forwards = expected.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).toList();
            assertEquals(forwards, all(items.iterate(Range.ofPrefix(bytes("k")))));
            List<String> backwards = new ArrayList<>(forwards);
            Collections.reverse(backwards);
            assertEquals(backwards, all(items.iterate(Range.ofPrefix(bytes("k")).reversed())));
            List<String> part = expected.subMap("k2", true, "k30", false).entrySet().stream()
                    .map(e -> e.getKey() + "=" + e.getValue()).toList();
            assertEquals(part, all(items.iterate(Range.ofPrefix(bytes("k")).from(bytes("2")).before(bytes("30")))));
            List<String> keys = expected.keySet().stream().map(key -> key + "=").toList();
            assertEquals(keys, all(items.iterate(Range.ofPrefix(bytes("k")).keysOnly())));
            assertEquals(expected.size(), items.approximateLength(), expected.size() / 10.0);
        }
    }

    @Test
    void aSnapshotStaysAsItWas() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items");
            items.put(bytes("a"), bytes("1"));
            try (Snapshot before = store.snapshot()) {
                items.put(bytes("a"), bytes("2"));
                items.put(bytes("b"), bytes("3"));
                assertArrayEquals(bytes("1"), before.get(items, bytes("a")));
                assertNull(before.getMany(items, List.of(bytes("b"))).get(0));
                assertEquals(List.of("a=1"), all(before.iterate(items, new Range())));
            }
            assertArrayEquals(bytes("2"), items.get(bytes("a")));
        }
    }

    @Test
    void compareAndSetSetsOnce() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items");
            assertTrue(items.compareAndSet(bytes("a"), null, bytes("1")));
            assertFalse(items.compareAndSet(bytes("a"), null, bytes("2")));
            assertTrue(items.compareAndSet(bytes("a"), bytes("1"), null));
            assertNull(items.get(bytes("a")));
        }
    }

    @Test
    void aBatchIsIngested() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items");
            Batch batch = new Batch();
            for (int i = 0; i < 10_000; i++) {
                batch.put(items, bytes("key" + i), bytes("value" + i));
            }
            assertEquals(10_000, items.ingest(batch));
            assertArrayEquals(bytes("value77"), items.get(bytes("key77")));
            Keyspace other = store.keyspace("other");
            assertThrows(IllegalArgumentException.class, () -> other.ingest(batch));
            batch.clear();
            batch.delete(items, bytes("key77"));
            assertThrows(SiltstoneException.class, () -> items.ingest(batch));
        }
    }

    @Test
    void aKeyspaceGetsAnotherDesign() throws Exception {
        try (Store store = open()) {
            Keyspace files = store.keyspace("files");
            files.put(bytes("a"), bytes("1"));
            files.redesign("leveled");
            assertTrue(files.statsJson().contains("\"redesign\":{"), files.statsJson());
            assertArrayEquals(bytes("1"), files.get(bytes("a")));
            for (String wrong : new String[] {"granite", "{}", "{"}) {
                assertEquals(SiltstoneException.Kind.INVALID_INPUT,
                        assertThrows(SiltstoneException.class, () -> files.redesign(wrong)).kind());
            }
        }
    }

    @Test
    void aKeyspaceGetsAnotherSchema() throws Exception {
        try (Store store = open()) {
            Keyspace files = store.keyspace("files");
            for (int i = 0; i < 300; i++) {
                files.put(bytes("home/" + i), bytes("" + i));
            }
            files.changeSchema(new KeyspaceOptions().schema("delim:/").preset("leveled"));
            files.waitForSchema();
            assertEquals(300, all(files.iterate(Range.ofPrefix(bytes("home/")))).size());
            assertFalse(files.cancelSchemaChange());
            assertThrows(SiltstoneException.class, () -> files.changeSchema(new KeyspaceOptions().schema("nonsense")));
            // A key that does not fit ends the change.
            files.changeSchema(new KeyspaceOptions());
            files.waitForSchema();
            files.put(bytes("README"), bytes("1"));
            files.changeSchema(new KeyspaceOptions().schema("delim:/"));
            assertEquals(SiltstoneException.Kind.BAD_KEY,
                    assertThrows(SiltstoneException.class, files::waitForSchema).kind());
            assertArrayEquals(bytes("1"), files.get(bytes("README")));
        }
    }

    @Test
    void errorsHaveFacts() throws Exception {
        Path none = directory.resolve("none");
        SiltstoneException missing = assertThrows(SiltstoneException.class,
                () -> Store.open(none, new Options().createIfMissing(false)));
        assertEquals(SiltstoneException.Kind.NOT_A_STORE, missing.kind());
        assertEquals(none, missing.path().orElseThrow());
        try (Store store = open()) {
            Keyspace items = store.keyspace("items", new KeyspaceOptions().schema("fixed:4"));
            assertEquals(SiltstoneException.Kind.BAD_KEY,
                    assertThrows(SiltstoneException.class, () -> items.put(bytes("abc"), bytes("1"))).kind());
            assertEquals(SiltstoneException.Kind.LOCKED,
                    assertThrows(SiltstoneException.class, this::open).kind());
            assertEquals(SiltstoneException.Kind.INVALID_INPUT, assertThrows(SiltstoneException.class,
                    () -> store.keyspace("x", new KeyspaceOptions().schema("nonsense"))).kind());
            store.dropKeyspace("items");
            assertEquals(SiltstoneException.Kind.NO_KEYSPACE,
                    assertThrows(SiltstoneException.class, () -> items.put(bytes("abcd"), bytes("1"))).kind());
        }
    }

    @Test
    void aDamagedTableIsNamedWithItsOffset() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items");
            Batch batch = new Batch();
            for (int i = 0; i < 20_000; i++) {
                batch.put(items, bytes("key" + i), new byte[100]);
            }
            store.write(batch);
            store.flush();
            store.waitUntilIdle();
        }
        Path table;
        try (var files = Files.walk(directory.resolve("db"))) {
            table = files.filter(Files::isRegularFile).max(java.util.Comparator.comparingLong(f -> f.toFile().length()))
                    .orElseThrow();
        }
        byte[] content = Files.readAllBytes(table);
        Arrays.fill(content, content.length / 4, content.length / 2, (byte) 0x5A);
        Files.write(table, content);
        SiltstoneException damaged = assertThrows(SiltstoneException.class, () -> {
            try (Store store = open()) {
                all(store.existingKeyspace("items").orElseThrow().iterate());
            }
        });
        assertEquals(SiltstoneException.Kind.CORRUPTION, damaged.kind());
        assertEquals(table.getFileName(), damaged.path().orElseThrow().getFileName());
        assertTrue(damaged.offset().isPresent());
        assertTrue(damaged.expected().isPresent() && damaged.found().isPresent());
    }

    @Test
    void storesShareABudget() throws Exception {
        try (Resources shared = new Resources(32 << 20, 1, 64)) {
            List<Store> stores = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                Store store = Store.open(directory.resolve("db" + i), new Options().resources(shared));
                store.keyspace("items").put(bytes("key"), new byte[1000]);
                stores.add(store);
            }
            assertEquals(8, shared.stores());
            assertEquals(32 << 20, shared.budgetBytes());
            assertTrue(shared.memoryBytes() > 0 && shared.memoryBytes() <= 32 << 20);
            for (Store store : stores) {
                store.close();
            }
            assertEquals(0, shared.stores());
        }
    }

    @Test
    void aCheckpointIsAStore() throws Exception {
        try (Store store = open()) {
            store.keyspace("items").put(bytes("a"), bytes("1"));
            store.checkpoint(directory.resolve("copy"));
            store.keyspace("items").put(bytes("a"), bytes("2"));
            store.sync();
            store.compact();
            assertTrue(store.statsJson().startsWith("{"));
            assertTrue(store.keyspace("items").statsJson().contains("\"items\""));
        }
        try (Store copy = Store.open(directory.resolve("copy"), new Options().readOnly(true))) {
            Keyspace items = copy.existingKeyspace("items").orElseThrow();
            assertArrayEquals(bytes("1"), items.get(bytes("a")));
            assertEquals(SiltstoneException.Kind.READ_ONLY,
                    assertThrows(SiltstoneException.class, () -> items.put(bytes("a"), bytes("3"))).kind());
        }
    }

    private interface Call {
        void run() throws Exception;
    }

    private static void assertNamed(Class<? extends Exception> kind, String name, Call call) {
        String message = assertThrows(kind, call::run).getMessage();
        assertTrue(message.contains(name), message);
    }

    /** A null is what Java calls it, with the argument's name, and changes nothing. */
    @Test
    void aNullIsNamed() throws Exception {
        Class<? extends Exception> kind = NullPointerException.class;
        byte[] key = bytes("key");
        assertNamed(kind, "path", () -> Store.open(null, new Options()));
        assertNamed(kind, "options", () -> Store.open(directory, null));
        assertNamed(kind, "syncInterval", () -> new Options().syncInterval(null));
        assertNamed(kind, "schema", () -> new KeyspaceOptions().schema(null));
        assertNamed(kind, "prefix", () -> Range.ofPrefix(null));
        assertNamed(kind, "suffix", () -> Range.ofPrefix(key).from(null));
        assertNamed(kind, "suffix", () -> Range.ofPrefix(key).before(null));
        try (Store store = open(); Snapshot snapshot = store.snapshot()) {
            Keyspace items = store.keyspace("items");
            assertNamed(kind, "name", () -> store.keyspace(null));
            assertNamed(kind, "options", () -> store.keyspace("items", null));
            assertNamed(kind, "name", () -> store.existingKeyspace(null));
            assertNamed(kind, "name", () -> store.dropKeyspace(null));
            assertNamed(kind, "batch", () -> store.write(null));
            assertNamed(kind, "batch", () -> store.write(null, true));
            assertNamed(kind, "directory", () -> store.checkpoint(null));
            assertNamed(kind, "key", () -> items.get(null));
            assertNamed(kind, "key", () -> items.get(null, ByteBuffer.allocateDirect(1)));
            assertNamed(kind, "into", () -> items.get(key, null));
            assertNamed(kind, "key", () -> items.contains(null));
            assertNamed(kind, "keys", () -> items.getMany(null));
            assertNamed(kind, "key", () -> items.getMany(Arrays.asList(key, null)));
            assertNamed(kind, "key", () -> items.put(null, key));
            assertNamed(kind, "value", () -> items.put(key, null));
            assertNamed(kind, "key", () -> items.delete(null));
            assertNamed(kind, "key", () -> items.compareAndSet(null, null, key));
            assertNamed(kind, "batch", () -> items.ingest(null));
            assertNamed(kind, "range", () -> items.iterate(null));
            assertNamed(kind, "keyspace", () -> snapshot.get(null, key));
            assertNamed(kind, "keyspace", () -> snapshot.getMany(null, List.of()));
            assertNamed(kind, "keyspace", () -> snapshot.iterate(null, new Range()));
            Batch batch = new Batch();
            assertNamed(kind, "keyspace", () -> batch.put(null, key, key));
            assertNamed(kind, "key", () -> batch.put(items, null, key));
            assertNamed(kind, "value", () -> batch.put(items, key, null));
            assertNamed(kind, "ttl", () -> batch.put(items, key, key, null));
            assertNamed(kind, "key", () -> batch.delete(items, null));
            assertNamed(kind, "prefix", () -> batch.deletePrefix(items, null));
            assertNamed(kind, "operand", () -> batch.merge(items, key, null));
            assertEquals(0, batch.count());
            batch.put(items, key, key);
            store.write(batch);
            assertArrayEquals(key, items.get(key));
        }
    }

    @Test
    void timesAreNotNegativeAndNoneIsLost() throws Exception {
        Class<? extends Exception> kind = IllegalArgumentException.class;
        assertNamed(kind, "syncInterval", () -> new Options().syncInterval(Duration.ofMillis(-1)));
        assertEquals(1, new Options().syncInterval(Duration.ofNanos(1)).syncIntervalMs);
        assertEquals(0, new Options().syncInterval(Duration.ZERO).syncIntervalMs);
        Options longest = new Options().syncInterval(Duration.ofSeconds(Long.MAX_VALUE, 999_999_999));
        assertEquals(Long.MAX_VALUE, longest.syncIntervalMs);
        try (Store store = Store.open(directory.resolve("db"), longest.memoryBytes(16 << 20))) {
            Keyspace items = store.keyspace("items");
            Batch batch = new Batch();
            assertNamed(kind, "ttl", () -> batch.put(items, bytes("a"), bytes("1"), Duration.ofMillis(-1)));
            assertNamed(kind, "ttl", () -> batch.put(items, bytes("a"), bytes("1"), Duration.ofNanos(-1)));
            assertEquals(0, batch.count());
            batch.put(items, bytes("b"), bytes("2"), Duration.ofSeconds(Long.MAX_VALUE));
            batch.put(items, bytes("c"), bytes("3"), Duration.ZERO);
            store.write(batch);
            assertNull(items.get(bytes("a")));
            assertArrayEquals(bytes("2"), items.get(bytes("b")));
            assertNull(items.get(bytes("c")));
        }
    }

    /** Whatever number is given: an error that names the option as Java does, and never the end of the process. */
    @Test
    void numbersThatCannotBeAreNamed() throws Exception {
        Class<? extends Exception> negative = IllegalArgumentException.class;
        assertNamed(negative, "memoryBytes", () -> new Options().memoryBytes(-1));
        assertNamed(negative, "threads", () -> new Options().threads(-1));
        assertNamed(negative, "maxOpenFiles", () -> new Options().maxOpenFiles(-1));
        assertNamed(negative, "maxLogBytes", () -> new Options().maxLogBytes(Long.MIN_VALUE));
        assertNamed(negative, "reserveBytes", () -> new Options().reserveBytes(-1));
        assertNamed(negative, "memoryBytes", () -> new Resources(-1, 1, 64));
        assertNamed(negative, "threads", () -> new Resources(1 << 20, -1, 64));
        assertNamed(negative, "maxOpenFiles", () -> new Resources(1 << 20, 1, -1));
        Class<? extends Exception> unusable = SiltstoneException.class;
        for (long bytes : new long[] {0, 1000, 1L << 47, Long.MAX_VALUE}) {
            assertNamed(unusable, "memoryBytes: " + bytes, () -> new Resources(bytes, 1, 64));
            assertNamed(unusable, "memoryBytes: " + bytes,
                    () -> Store.open(directory.resolve("none"), new Options().memoryBytes(bytes)));
        }
        for (int threads : new int[] {0, 65, Integer.MAX_VALUE}) {
            assertNamed(unusable, "threads: ", () -> new Resources(1 << 20, threads, 64));
        }
        assertNamed(unusable, "threads: ", () -> Store.open(directory.resolve("none"), new Options().threads(1000)));
        assertNamed(unusable, "maxOpenFiles: ", () -> new Resources(1 << 20, 1, 0));
        assertNamed(unusable, "maxOpenFiles: ",
                () -> Store.open(directory.resolve("none"), new Options().maxOpenFiles(7)));
        assertFalse(Files.exists(directory.resolve("none")));
        for (long bytes : new long[] {1L << 40, 1L << 46}) {
            Options large = new Options().memoryBytes(bytes).maxLogBytes(Long.MAX_VALUE)
                    .maxOpenFiles(Integer.MAX_VALUE);
            try (Store store = Store.open(directory.resolve("large" + bytes), large)) {
                Keyspace items = store.keyspace("items");
                items.put(bytes("a"), bytes("1"));
                store.flush();
                items.ingest(new Batch().put(items, bytes("b"), bytes("2")));
                assertArrayEquals(bytes("1"), items.get(bytes("a")));
                assertArrayEquals(bytes("2"), items.get(bytes("b")));
            }
            new Resources(bytes, 64, Integer.MAX_VALUE).close();
        }
    }

    /** What the engine says to do, it says in Java's names. */
    @Test
    void adviceIsInJavasNames() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items", new KeyspaceOptions().schema("delim:/"));
            assertNamed(SiltstoneException.class, "KeyspaceOptions.mergeOperator",
                    () -> store.write(new Batch().merge(items, bytes("a"), bytes("1"))));
            assertNamed(SiltstoneException.class, "unknown; name one",
                    () -> store.keyspace("sums", new KeyspaceOptions().mergeOperator("none")));
            assertNamed(SiltstoneException.class, "walk over all items",
                    () -> items.iterate(Range.ofPrefix(bytes("a"))).next());
        }
        try (Store store = Store.open(directory.resolve("small"), new Options().memoryBytes(1 << 20))) {
            assertNamed(SiltstoneException.class, "memoryBytes",
                    () -> store.keyspace("large", new KeyspaceOptions().preset("lsm-trie")));
        }
        assertNamed(SiltstoneException.class, "autoDesign",
                () -> Store.open(directory.resolve("often"), new Options().autoDesign("often")));
        Options picked = new Options().memoryBytes(2 << 20).preset("auto").autoDesign("propose");
        try (Store store = Store.open(directory.resolve("picked"), picked)) {
            store.keyspace("small").put(bytes("a"), bytes("1"));
        }
        try (Store store = Store.open(directory.resolve("db"), new Options().readOnly(true))) {
            Keyspace items = store.existingKeyspace("items").orElseThrow();
            assertNamed(SiltstoneException.class, "Options.readOnly", () -> items.put(bytes("a/b"), bytes("1")));
        }
    }

    /** One large value takes no memory for good. */
    @Test
    void aBatchLetsGoOfALargeBuffer() throws Exception {
        try (Store store = open()) {
            Keyspace items = store.keyspace("items");
            Batch batch = new Batch();
            store.write(batch.put(items, bytes("a"), new byte[5 << 20]));
            batch.clear();
            batch.put(items, bytes("b"), bytes("1"));
            store.write(batch);
            assertEquals(5 << 20, items.get(bytes("a")).length);
            assertArrayEquals(bytes("1"), items.get(bytes("b")));
            assertEquals(4096, batch.room());
        }
    }

    /** A batch or a snapshot of one store is nothing to another. */
    @Test
    void storesAreNotMixed() throws Exception {
        try (Store store = open(); Store other = Store.open(directory.resolve("other"), new Options())) {
            Keyspace items = store.keyspace("items");
            Keyspace others = other.keyspace("items");
            assertThrows(SiltstoneException.class, () -> other.write(new Batch().put(items, bytes("a"), bytes("1"))));
            try (Snapshot snapshot = other.snapshot()) {
                assertThrows(SiltstoneException.class, () -> snapshot.get(items, bytes("a")));
                assertThrows(SiltstoneException.class, () -> snapshot.iterate(items, new Range()));
            }
            assertNull(others.get(bytes("a")));
            assertNull(items.get(bytes("a")));
        }
    }

    @Test
    void anIteratorThatIsClosedHasNoItem() throws Exception {
        try (Store store = open()) {
            Keyspace users = store.keyspace("users", new KeyspaceOptions().schema("fixed:1"));
            for (int i = 0; i < 100; i++) {
                users.put(bytes("k" + i), bytes("v"));
            }
            KeyIterator items = users.iterate();
            assertThrows(java.util.NoSuchElementException.class, items::key);
            assertTrue(items.next());
            items.key();
            items.close();
            items.close();
            for (Call call : List.<Call>of(items::next, items::key, items::value, () -> items.keyFrom(0))) {
                assertNamed(IllegalStateException.class, "the iterator is closed", call);
            }
            KeyIterator other = users.iterate();
            assertTrue(other.next());
            store.close();
            for (Call call : List.<Call>of(other::next, other::key, other::value, () -> other.keyFrom(0))) {
                assertNamed(IllegalStateException.class, "the store is closed", call);
            }
        }
    }

    @Test
    void aPartOfAKeyThatThereIsNotIsNamed() throws Exception {
        try (Store store = open()) {
            Keyspace users = store.keyspace("users");
            users.put(bytes("ann"), bytes("42"));
            try (KeyIterator items = users.iterate()) {
                assertTrue(items.next());
                assertArrayEquals(bytes("ann"), items.keyFrom(0));
                assertArrayEquals(bytes("n"), items.keyFrom(2));
                assertArrayEquals(new byte[0], items.keyFrom(3));
                for (int start : new int[] {-1, 4, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
                    assertNamed(IndexOutOfBoundsException.class, "start is " + start + ", and the key has 3 bytes",
                            () -> items.keyFrom(start));
                }
            }
        }
    }

    /** Two names that differ in halves of surrogate pairs would be one to the store. */
    @Test
    void aNameOfCharactersAloneIsTaken() throws Exception {
        try (Store store = open()) {
            String pair = "a\uD83D\uDE00z";
            store.keyspace(pair).put(bytes("k"), bytes("v"));
            assertEquals(List.of(pair), store.keyspaces());
            assertTrue(store.existingKeyspace(pair).isPresent());
            for (String name : List.of("a\uD83D", "\uDE00z", "a\uD83Dz", "\uDE00\uD83D")) {
                List<Call> calls = List.of(() -> store.keyspace(name), () -> store.existingKeyspace(name),
                        () -> store.dropKeyspace(name), () -> new Options().preset(name),
                        () -> new KeyspaceOptions().preset(name), () -> new KeyspaceOptions().mergeOperator(name),
                        () -> new KeyspaceOptions().schema(name));
                for (Call call : calls) {
                    assertNamed(IllegalArgumentException.class, "half of a surrogate pair", call);
                }
            }
            assertEquals(List.of(pair), store.keyspaces());
        }
    }

    /** Needs more than 4 GiB of memory, and is left out where there is less. */
    @Test
    void moreThanAnArrayHoldsIsNotAskedForAtOnce() throws Exception {
        long free = ((com.sun.management.OperatingSystemMXBean)
                java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getFreeMemorySize();
        org.junit.jupiter.api.Assumptions.assumeTrue(free > 6L << 30, "there is too little memory");
        try (Store store = open()) {
            Keyspace users = store.keyspace("users");
            byte[] key = bytes("key");
            users.put(key, new byte[64 << 20]);
            String message = assertThrows(SiltstoneException.class,
                    () -> users.getMany(Collections.nCopies(33, key))).getMessage();
            assertTrue(message.contains("33 keys") && message.contains("fewer keys at once"), message);
            // What fits is got.
            assertEquals(2, users.getMany(List.of(key, key)).size());
        }
        assertNamed(IllegalArgumentException.class, "at most 2 GiB can be asked for at once", () -> {
            try (Store store = open()) {
                store.keyspace("users").getMany(Collections.nCopies(40, new byte[60 << 20]));
            }
        });
    }
}
