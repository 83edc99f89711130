package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Iterators whose store or segment goes away between {@code hasNext()} and {@code next()}, beside RocksDB's. */
class IteratorLifeTest {
    private static final Duration RETENTION = Duration.ofMinutes(4);
    private static final Duration MINUTE = Duration.ofMinutes(1);
    /** So many that a segment is more than the block that an iterator holds. */
    private static final int KEYS = 300;
    private static final byte[] VALUE = new byte[400];

    @TempDir
    Path directory;

    private InternalMockProcessorContext<?, ?> context(String name) throws Exception {
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, 64 << 20);
        Path task = Files.createDirectories(directory.resolve(name).resolve("0_0"));
        return new InternalMockProcessorContext<>(task.toFile(), Serdes.ByteArray(), Serdes.ByteArray(),
                new StreamsConfig(config));
    }

    private static Bytes key(int number) {
        return Bytes.wrap(String.format("key%04d", number).getBytes(StandardCharsets.UTF_8));
    }

    private static StateStore make(char kind, boolean isRocksDb) {
        return switch (kind) {
            case 'k' -> (isRocksDb ? Stores.persistentKeyValueStore("store") : SiltstoneStores.keyValueStore("store"))
                    .get();
            case 'w' -> (isRocksDb ? Stores.persistentWindowStore("store", RETENTION, MINUTE, false)
                    : SiltstoneStores.windowStore("store", RETENTION, MINUTE, false)).get();
            case 't' -> new SiltstoneDslStoreSuppliers().windowStore(new DslWindowParams("store", RETENTION, MINUTE,
                    false, EmitStrategy.onWindowClose(), false, DslStoreFormat.PLAIN)).get();
            default -> (isRocksDb ? Stores.persistentSessionStore("store", RETENTION)
                    : SiltstoneStores.sessionStore("store", RETENTION)).get();
        };
    }

    @SuppressWarnings("unchecked")
    private static void put(StateStore store, Bytes key, long minute) {
        long time = minute * MINUTE.toMillis();
        if (store instanceof KeyValueStore<?, ?>) {
            ((KeyValueStore<Bytes, byte[]>) store).put(Bytes.wrap((minute + "/" + key).getBytes(
                    StandardCharsets.UTF_8)), VALUE);
        } else if (store instanceof WindowStore<?, ?>) {
            ((WindowStore<Bytes, byte[]>) store).put(key, VALUE, time);
        } else {
            ((SessionStore<Bytes, byte[]>) store).put(new Windowed<>(key, new SessionWindow(time, time + 10)), VALUE);
        }
    }

    private static void fill(StateStore store, long firstMinute) {
        for (long minute = firstMinute; minute < firstMinute + 4; minute++) {
            for (int i = 0; i < KEYS; i++) {
                put(store, key(i), minute);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static KeyValueIterator<?, byte[]> walk(StateStore store, String how) {
        return switch (how) {
            case "k all" -> ((KeyValueStore<Bytes, byte[]>) store).all();
            case "k prefix" ->
                ((KeyValueStore<Bytes, byte[]>) store).prefixScan("1", Serdes.String().serializer());
            case "t all" -> ((WindowStore<Bytes, byte[]>) store).fetchAll(0, Long.MAX_VALUE);
            case "w all" -> ((WindowStore<Bytes, byte[]>) store).all();
            case "w fetch" -> ((WindowStore<Bytes, byte[]>) store).fetch(key(0), 0, Long.MAX_VALUE);
            case "w backward" -> ((WindowStore<Bytes, byte[]>) store).backwardFetchAll(0, Long.MAX_VALUE);
            case "s fetch" -> ((SessionStore<Bytes, byte[]>) store).fetch(key(0));
            default -> ((SessionStore<Bytes, byte[]>) store).findSessions(key(0), key(KEYS), 0, Long.MAX_VALUE);
        };
    }

    /** What is answered, or the exception. */
    private static String tell(Supplier<Object> question) {
        try {
            return String.valueOf(question.get());
        } catch (InvalidStateStoreException | NoSuchElementException e) {
            return e.getClass().getSimpleName();
        }
    }

    /** Takes an item, lets something happen, with the next item held or not, and says what comes of it. */
    private String told(String how, boolean isRocksDb, boolean isHeld, String event) throws Exception {
        InternalMockProcessorContext<?, ?> context = context(how + isRocksDb + isHeld + event);
        StateStore store = make(how.charAt(0), isRocksDb);
        store.init(context, store);
        fill(store, 0);
        KeyValueIterator<?, byte[]> items = walk(store, how);
        assertArrayEquals(VALUE, items.next().value);
        assertTrue(!isHeld || items.hasNext());
        switch (event) {
            case "close" -> items.close();
            case "close store" -> store.close();
            case "reopen store" -> {
                store.close();
                store.init(context, store);
            }
            case "drop a segment" -> put(store, key(1), 6);
            default -> put(store, key(1), 60);
        }
        String told = tell(() -> items.next().key) + ", " + tell(items::peekNextKey) + ", " + tell(() -> {
            int more = 0;
            while (items.hasNext()) {
                assertArrayEquals(VALUE, items.next().value);
                more++;
            }
            return more;
        }) + ", " + tell(items::hasNext);
        items.close();
        store.close();
        return told;
    }

    @ParameterizedTest
    @ValueSource(strings = {"k all", "k prefix", "w all", "w fetch", "w backward", "s fetch", "s find"})
    void endsAsRocksDbsDoes(String how) throws Exception {
        for (boolean isHeld : new boolean[] {true, false}) {
            for (String event : List.of("close store", "reopen store")) {
                assertEquals(told(how, true, isHeld, event), told(how, false, isHeld, event), event);
            }
            // RocksDB's over segments go on with the next one after they were closed.
            String expected = how.startsWith("k") ? told(how, true, isHeld, "close")
                    : "NoSuchElementException, NoSuchElementException, 0, false";
            assertEquals(expected, told(how, false, isHeld, "close"));
        }
    }

    /** The segment that it is in is walked to its end; others that are dropped are left out. */
    @Test
    void goesOnWhereASegmentIsDropped() throws Exception {
        for (boolean isHeld : new boolean[] {true, false}) {
            assertEquals("[key0000@60000/120000], [key0001@0/60000], " + (4 * KEYS - 2) + ", false",
                    told("w all", false, isHeld, "drop a segment"));
            assertEquals("[key0000@60000/120000], [key0001@0/60000], " + (2 * KEYS - 2) + ", false",
                    told("w all", false, isHeld, "drop all"));
            assertEquals("[key0001@0/60000], [key0002@0/60000], " + (4 * KEYS - 2) + ", false",
                    told("t all", false, isHeld, "drop a segment"));
            assertEquals("[key0001@0/60000], [key0002@0/60000], " + (2 * KEYS - 2) + ", false",
                    told("t all", false, isHeld, "drop all"));
            assertEquals("60000, 120000, 2, false", told("w fetch", false, isHeld, "drop a segment"));
            assertEquals("60000, NoSuchElementException, 0, false", told("w fetch", false, isHeld, "drop all"));
            assertEquals("[key0000@60000/60010], [key0001@0/10], " + (2 * KEYS - 2) + ", false",
                    told("s find", false, isHeld, "drop all"));
        }
    }

    /** The store is closed, as by another thread, after the iterator found its next item and before it takes it. */
    @Test
    void aStoreThatIsClosedWithinNextEndsIt() throws Exception {
        for (boolean isPeeking : new boolean[] {true, false}) {
            SiltstoneWindowStore store = (SiltstoneWindowStore) make('w', false);
            store.init(context("closed" + isPeeking), store);
            fill(store, 0);
            AtomicBoolean closes = new AtomicBoolean();
            KeyValueIterator<Bytes, byte[]> items = store.scan(0, Long.MAX_VALUE, null, null, true, key -> {
                if (closes.get()) {
                    store.close();
                }
                return true;
            });
            items.next();
            assertTrue(items.hasNext());
            closes.set(true);
            assertThrows(NoSuchElementException.class, isPeeking ? items::peekNextKey : items::next);
            assertFalse(items.hasNext());
        }
    }

    /** Threads that ask, while another drops segments, closes the store and opens it again. */
    @Test
    void threadsThatAskSeeAnItemOrTheEnd() throws Exception {
        InternalMockProcessorContext<?, ?> context = context("threads");
        SiltstoneWindowStore store = (SiltstoneWindowStore) make('w', false);
        store.init(context, store);
        AtomicBoolean isOver = new AtomicBoolean();
        AtomicLong latest = new AtomicLong();
        AtomicLong seen = new AtomicLong();
        ExecutorService threads = Executors.newFixedThreadPool(3);
        List<Future<?>> readers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            boolean isSingle = i == 0;
            readers.add(threads.submit(() -> {
                while (!isOver.get()) {
                    ask(store, isSingle, latest, seen);
                }
            }));
        }
        long minute = 0;
        for (int round = 0; round < 25; round++, minute += 5) {
            latest.set(minute);
            fill(store, minute);
            if (round % 4 == 3) {
                store.close();
                store.init(context, store);
            }
        }
        isOver.set(true);
        for (Future<?> reader : readers) {
            reader.get(60, TimeUnit.SECONDS);
        }
        threads.shutdown();
        store.close();
        assertTrue(seen.get() > 1000, seen + " items were seen");
    }

    private static void ask(SiltstoneWindowStore store, boolean isSingle, AtomicLong latest, AtomicLong seen) {
        if (isSingle) {
            long before = latest.get();
            for (long minute = before - 6; minute < before + 6; minute++) {
                try {
                    byte[] value = store.fetch(key(7), minute * MINUTE.toMillis());
                    assertTrue(value == null || value.length == VALUE.length);
                    seen.addAndGet(value == null ? 0 : 1);
                } catch (InvalidStateStoreException e) {
                    assertTrue(e.getMessage().contains("currently closed"), e.getMessage());
                }
            }
            return;
        }
        KeyValueIterator<Windowed<Bytes>, byte[]> items;
        try {
            items = store.all();
        } catch (InvalidStateStoreException e) {
            return;
        }
        try (items) {
            while (items.hasNext()) {
                assertArrayEquals(VALUE, items.next().value);
                seen.incrementAndGet();
            }
        } catch (NoSuchElementException e) {
            // The store was closed between the two.
            assertNull(e.getMessage());
        }
    }
}
