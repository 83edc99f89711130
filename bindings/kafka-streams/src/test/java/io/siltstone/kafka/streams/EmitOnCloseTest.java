package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Stores whose windows are emitted when they close: walked by time, a few items at a time, or by key under a cache. */
class EmitOnCloseTest {
    private static final int ITEMS = 20_000;
    private static final int SPAN_MS = 300_000;

    @TempDir
    Path directory;

    private final Random random = new Random(1);

    private InternalMockProcessorContext<?, ?> context() {
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, 8L << 20);
        return new InternalMockProcessorContext<>(directory.resolve("0_0").toFile(), Serdes.ByteArray(),
                Serdes.ByteArray(), new StreamsConfig(config));
    }

    private static Bytes key(int number) {
        return Bytes.wrap(("key" + number % 997).getBytes());
    }

    private static byte[] value(int number) {
        return ByteBuffer.allocate(100).putInt(number).array();
    }

    /** Takes all items, and counts what the store's iterators hold meanwhile. */
    private static List<KeyValue<Windowed<Bytes>, byte[]>> drain(BaseStore store,
            KeyValueIterator<Windowed<Bytes>, byte[]> items) {
        List<KeyValue<Windowed<Bytes>, byte[]>> all = new ArrayList<>();
        int most = 0;
        try (items) {
            while (items.hasNext()) {
                most = Math.max(most, store.heldByIterators());
                all.add(items.next());
            }
        }
        assertTrue(most > 0 && most <= Items.ByTime.MOST_HELD + 1, most + " items were held at a time");
        assertEquals(0, store.heldByIterators());
        return all;
    }

    @Test
    void sessionsAreWalkedByTheirEndAFewAtATime() {
        SiltstoneSessionStore store = (SiltstoneSessionStore) new SiltstoneDslStoreSuppliers().sessionStore(
                new DslSessionParams("sessions", Duration.ofMillis(SPAN_MS), EmitStrategy.onWindowClose(),
                        DslStoreFormat.PLAIN)).get();
        store.init(context(), store);
        TreeMap<String, Integer> expected = new TreeMap<>();
        for (int i = 0; i < ITEMS; i++) {
            long end = random.nextInt(SPAN_MS);
            long start = Math.max(0, end - random.nextInt(3));
            Windowed<Bytes> session = new Windowed<>(key(i), new SessionWindow(start, end));
            store.put(session, value(i));
            expected.put(name(end, start, key(i)), i);
            if (i % 7 == 0) {
                store.remove(session);
                expected.remove(name(end, start, key(i)));
            }
        }
        assertTrue(store.segmentCount() > 1);
        List<KeyValue<Windowed<Bytes>, byte[]>> found = drain(store, store.findSessions(-5, Long.MAX_VALUE));
        assertEquals(List.copyOf(expected.keySet()), found.stream().map(item -> name(item.key.window().end(),
                item.key.window().start(), item.key.key())).toList());
        found.forEach(item -> assertArrayEquals(value(expected.get(name(item.key.window().end(),
                item.key.window().start(), item.key.key()))), item.value));
        // Both ends belong to the range.
        List<String> part = drain(store, store.findSessions(100_000, 200_000)).stream()
                .map(item -> name(item.key.window().end(), item.key.window().start(), item.key.key())).toList();
        assertEquals(List.copyOf(expected.subMap(name(100_000, 0, Bytes.wrap(new byte[0])),
                name(200_001, 0, Bytes.wrap(new byte[0]))).keySet()), part);
        store.close();
    }

    private static String name(long first, long second, Bytes key) {
        return String.format("%08d %08d %s", first, second, new String(key.get()));
    }

    @Test
    void windowsAreWalkedByTheirStartAFewAtATime() {
        SiltstoneWindowStore store = (SiltstoneWindowStore) new SiltstoneDslStoreSuppliers().windowStore(
                new DslWindowParams("windows", Duration.ofMillis(SPAN_MS), Duration.ofSeconds(1), false,
                        EmitStrategy.onWindowClose(), false, DslStoreFormat.TIMESTAMPED)).get();
        store.init(context(), store);
        TreeMap<String, Integer> expected = new TreeMap<>();
        for (int i = 0; i < ITEMS; i++) {
            long start = random.nextInt(SPAN_MS);
            byte[] value = i % 7 == 0 ? null : value(i);
            store.put(key(i), value, start);
            expected.remove(name(start, 0, key(i)));
            if (value != null) {
                expected.put(name(start, 0, key(i)), i);
            }
        }
        assertTrue(store.segmentCount() > 1);
        List<String> forward = drain(store, store.fetchAll(0, Long.MAX_VALUE)).stream()
                .map(item -> name(item.key.window().start(), 0, item.key.key())).toList();
        assertEquals(List.copyOf(expected.keySet()), forward);
        List<String> backward = new ArrayList<>(drain(store, store.backwardFetchAll(0, Long.MAX_VALUE)).stream()
                .map(item -> name(item.key.window().start(), 0, item.key.key())).toList());
        Collections.reverse(backward);
        assertEquals(forward, backward);
        // By key they are still found by key.
        int count = 0;
        try (KeyValueIterator<Long, byte[]> items = store.fetch(key(5), 0, SPAN_MS)) {
            for (long last = -1; items.hasNext(); count++) {
                long start = items.next().key;
                assertTrue(start > last);
                last = start;
            }
        }
        assertEquals(expected.keySet().stream().filter(name -> name.endsWith(" key5")).count(), count);
        store.close();
    }

    /**
     * Two windows of two keys, of which the later window has the lower key, close at once. The caching layer, which is
     * there by default, merges by key: in another order it would emit one of them twice.
     */
    @ParameterizedTest
    @ValueSource(longs = {0, 10_000_000})
    void eachWindowIsEmittedOnceWhateverTheCache(long cacheBytes) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "final");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cacheBytes);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, SiltstoneDslStoreSuppliers.class);
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("in", Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(50)))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("final")
                        .withRetention(Duration.ofMinutes(10)))
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .to("out", Produced.with(Serdes.String(), Serdes.Long()));
        try (TopologyTestDriver driver =
                new TopologyTestDriver(builder.build(config), config, Instant.ofEpochMilli(0))) {
            TestInputTopic<String, String> in =
                    driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            TestOutputTopic<String, Long> out =
                    driver.createOutputTopic("out", new StringDeserializer(), new LongDeserializer());
            in.pipeInput("b", "1", 1_000);
            in.pipeInput("a", "1", 11_000);
            in.pipeInput("c", "1", 21_000);
            in.pipeInput("a", "1", 12_000);
            in.pipeInput("b", "1", 2_000);
            in.pipeInput("d", "1", 200_000);
            List<KeyValue<String, Long>> emitted = new ArrayList<>(out.readKeyValuesToList());
            List<KeyValue<String, Long>> expected = List.of(new KeyValue<>("b@0", 2L), new KeyValue<>("a@10000", 2L),
                    new KeyValue<>("c@20000", 1L));
            if (cacheBytes > 0) {
                // By key, as the cache has them.
                emitted.sort((x, y) -> expected.indexOf(x) - expected.indexOf(y));
            }
            assertEquals(expected, emitted);
        }
    }
}
