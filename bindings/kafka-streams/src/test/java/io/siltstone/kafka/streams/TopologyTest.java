package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.TimestampedKeyQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Topologies made at random, fed the same records on RocksDB's stores and on Siltstone's: they emit the same records in
 * the same order, their stores hold the same in the same order, and answer the same queries. Cached or not, exactly once or
 * at least once, with headers in their values or without.
 */
class TopologyTest {
    /** Fed to each topology; {@code -Dtopology.records=600} on Maven's command line feeds more. */
    private static final int RECORDS = Integer.getInteger("topology.records", 400);
    /** Of stream time, whatever the records, so that windows close and segments end. */
    private static final int SPAN_MS = 90_000;
    private static final int PARTS = 15;

    @TempDir
    Path directory;

    /** With these, tables are written and merged while the topologies run. */
    private static final int SMALL_BUDGET = 1 << 20;
    private static final int LARGE_VALUE = 4000;
    private static final int MORE_RECORDS = 1000;

    /** What a topology did: a line for each record that it emitted and for each item that its stores hold. */
    private record Outcome(List<String> emitted, List<String> held) {}

    /** Twelve, which are every combination of the configurations; {@code -Dtopology.seeds=100} for more topologies. */
    static LongStream seeds() {
        return LongStream.rangeClosed(1, Integer.getInteger("topology.seeds", 12));
    }

    @ParameterizedTest
    @MethodSource("seeds")
    void answersAreThoseOfRocksDb(long seed) {
        assertSame(seed, false);
    }

    /** Every combination of caching and of exactly once or at least once; {@code -Dtopology.small.seeds=24} for more. */
    static LongStream smallSeeds() {
        return LongStream.rangeClosed(1, Integer.getInteger("topology.small.seeds", 4));
    }

    /** Memory for far less than the stores hold: what they answer comes from tables, and from tables that were merged. */
    @ParameterizedTest
    @MethodSource("smallSeeds")
    void answersAreThoseOfRocksDbFromTables(long seed) {
        assertSame(seed, true);
    }

    private void assertSame(long seed, boolean isSmall) {
        Outcome expected = run(seed, new BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers(), isSmall);
        Outcome found = run(seed, new SiltstoneDslStoreSuppliers(), isSmall);
        assertTrue(expected.emitted.size() > 50, "the topology emits too little to tell anything");
        assertEquals(expected.emitted, found.emitted);
        assertEquals(expected.held, found.held);
    }

    private Outcome run(long seed, DslStoreSuppliers suppliers, boolean isSmall) {
        boolean isCached = seed % 2 == 0;
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "random-" + seed);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, isCached ? 20_000 : 0);
        config.put(StreamsConfig.STATE_DIR_CONFIG,
                directory.resolve(suppliers.getClass().getSimpleName()).toString());
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers.getClass());
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0);
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(SiltstoneConfig.MEMORY_BYTES, isSmall ? SMALL_BUDGET : 64L << 20);
        if (seed % 4 < 2) {
            config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        }
        boolean hasHeaders = seed % 3 == 0;
        if (hasHeaders) {
            config.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, StreamsConfig.DSL_STORE_FORMAT_HEADERS);
        }
        Topology topology = topology(new Random(seed), config, suppliers);
        if (isCached && topology.describe().toString().contains("final-")) {
            // RocksDB's stores of windows that are emitted when they close fill the cache otherwise. Where it is full, it
            // emits what is oldest in it, whichever store's it is.
            config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 10_000_000);
        }
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0))) {
            feed(driver, new Random(seed), isSmall ? MORE_RECORDS : RECORDS, isSmall ? LARGE_VALUE : 0);
            if (isSmall && suppliers instanceof SiltstoneDslStoreSuppliers) {
                awaitMerges(driver);
            }
            return new Outcome(emitted(driver), held(driver, !hasHeaders));
        }
    }

    /** Takes each part with a chance, so that parts meet in all combinations. */
    private static Topology topology(Random random, Properties config, DslStoreSuppliers suppliers) {
        StreamsBuilder builder = new StreamsBuilder(
                new org.apache.kafka.streams.TopologyConfig(new StreamsConfig(config)));
        KStream<String, String> left = builder.stream("left", Consumed.with(Serdes.String(), Serdes.String()));
        KStream<String, String> right = builder.stream("right", Consumed.with(Serdes.String(), Serdes.String()));
        int taken = 0;
        for (int part = 0; part < PARTS; part++) {
            // Two parts at least, else what the dice say.
            if (random.nextBoolean() || (part >= PARTS - 2 && taken < 2)) {
                if (part < 9) {
                    addStreams(builder, part, left, right, random);
                } else {
                    addTables(builder, part, left, right, random, suppliers);
                }
                taken++;
            }
        }
        return builder.build(config);
    }

    private static void addStreams(StreamsBuilder builder, int part, KStream<String, String> left,
            KStream<String, String> right, Random random) {
        Duration size = Duration.ofSeconds(5 + random.nextInt(20));
        Duration grace = Duration.ofSeconds(random.nextInt(30));
        KGroupedStream<String, String> grouped = left.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        Serde<String> text = Serdes.String();
        switch (part) {
            case 0 -> emit(grouped.count().toStream());
            case 1 -> emit(grouped.windowedBy(TimeWindows.ofSizeAndGrace(size, grace).advanceBy(size.dividedBy(2)))
                    .count().toStream());
            case 2 -> emit(grouped.windowedBy(TimeWindows.ofSizeAndGrace(size, grace))
                    .emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.as("final-windows")).toStream());
            case 3 -> emit(grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, grace))
                    .reduce(TopologyTest::shorter).toStream());
            case 4 -> emit(grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(size.dividedBy(4), grace))
                    .count().toStream());
            case 5 -> emit(grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(size.dividedBy(4), grace))
                    .emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.as("final-sessions")).toStream());
            case 6 -> emit(left.join(right, (a, b) -> a + "+" + b, JoinWindows.ofTimeDifferenceAndGrace(
                    size.dividedBy(8), grace), StreamJoined.with(text, text, text)));
            case 7 -> emit(left.outerJoin(right, (a, b) -> a + "|" + b, JoinWindows.ofTimeDifferenceAndGrace(
                    size.dividedBy(8), grace), StreamJoined.with(text, text, text)));
            default -> {
                // A join by a foreign key: its subscriptions are found by ranges of a prefix.
                KTable<String, String> orders = left.toTable(Materialized.with(text, text));
                KTable<String, String> names = right.toTable(Materialized.with(text, text));
                emit(orders.join(names, order -> "key" + order.length() % 20, (order, name) -> order + "@" + name)
                        .toStream());
            }
        }
    }

    private static void addTables(StreamsBuilder builder, int part, KStream<String, String> left,
            KStream<String, String> right, Random random, DslStoreSuppliers suppliers) {
        Serde<String> text = Serdes.String();
        Duration size = Duration.ofSeconds(5 + random.nextInt(20));
        switch (part) {
            case 9 -> emit(left.toTable(Materialized.with(text, text))
                    .outerJoin(right.toTable(Materialized.with(text, text)), (a, b) -> a + "&" + b).toStream());
            case 10 -> emit(left.leftJoin(right.toTable(
                    Materialized.<String, String, KeyValueStore<Bytes, byte[]>>with(text, text).withLoggingDisabled()),
                    (a, b) -> a + "," + b));
            case 11 -> emit(left.join(builder.globalTable("global", Consumed.with(text, text)),
                    (key, value) -> "key" + (value == null ? 0 : value.length()), (a, b) -> a + "*" + b));
            case 12 -> emit(left.groupByKey(Grouped.with(text, text))
                    .windowedBy(TimeWindows.ofSizeAndGrace(size, Duration.ofSeconds(3))).reduce(TopologyTest::shorter)
                    .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream());
            case 13 -> emit(left.toTable(Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("grouped")
                    .withKeySerde(text).withValueSerde(text).withCachingDisabled())
                    .groupBy((key, value) -> org.apache.kafka.streams.KeyValue.pair("g" + value.length() % 7, value),
                            Grouped.with(text, text))
                    .reduce((a, b) -> a + b.length(), (a, b) -> a + "-" + b.length()).mapValues(TopologyTest::digest)
                    .toStream());
            default -> {
                for (String name : List.of("one", "two")) {
                    builder.addStateStore(Stores.keyValueStoreBuilder(
                            suppliers.keyValueStore(new DslKeyValueParams(name, DslStoreFormat.PLAIN)), text, text));
                }
                emit(left.process(() -> new TwoStores(), "one", "two"));
            }
        }
    }

    /** Uses two stores in every way, and leaves some iterators open. */
    private static final class TwoStores extends ContextualProcessor<String, String, String, String> {
        private int records;

        @Override
        public void process(Record<String, String> record) {
            KeyValueStore<String, String> one = context().getStateStore("one");
            KeyValueStore<String, String> two = context().getStateStore("two");
            StringBuilder said = new StringBuilder();
            said.append(one.putIfAbsent(record.key(), String.valueOf(record.value())));
            said.append(two.delete("key" + records % 50)).append(two.get(record.key()));
            two.put(record.key(), record.value());
            one.putAll(List.of(org.apache.kafka.streams.KeyValue.pair("n" + records % 30, "" + records),
                    org.apache.kafka.streams.KeyValue.pair("n" + (records + 7) % 30, null)));
            for (KeyValueIterator<String, String> items : List.of(one.range("key1", "key3"), two.reverseAll(),
                    one.prefixScan("n1", new StringSerializer()), two.reverseRange(null, "key2"))) {
                for (int taken = 0; items.hasNext() && taken < 5; taken++) {
                    said.append(' ').append(items.peekNextKey()).append(items.next().value);
                }
                if (records % 40 != 0) {
                    items.close();
                }
            }
            records++;
            context().forward(record.withValue(digest(said.toString())));
        }
    }

    private static String digest(String text) {
        return text.length() > 60 ? text.substring(0, 30) + "#" + text.hashCode() : text;
    }

    private static String shorter(String a, String b) {
        String both = a + b;
        return digest(both);
    }

    private static <K, V> void emit(KStream<K, V> stream) {
        stream.map((key, value) -> org.apache.kafka.streams.KeyValue.pair(
                key instanceof Windowed<?> windowed ? windowed.toString() : String.valueOf(key), String.valueOf(value)))
                .to("out", org.apache.kafka.streams.kstream.Produced.with(Serdes.String(), Serdes.String()));
    }

    /** Waits until a store has been flushed and another, or the same, has been merged. */
    private static void awaitMerges(TopologyTestDriver driver) {
        long end = System.nanoTime() + 30_000_000_000L;
        while (most(driver, "memtable-flush-time-max") == 0 || most(driver, "compaction-time-max") == 0) {
            assertTrue(System.nanoTime() < end, "no table was merged; tables have "
                    + most(driver, "total-sst-files-size") + " bytes in one store at the most");
            Thread.onSpinWait();
        }
    }

    private static double most(TopologyTestDriver driver, String metric) {
        return driver.metrics().values().stream().filter(found -> found.metricName().name().equals(metric))
                .mapToDouble(found -> ((Number) found.metricValue()).doubleValue()).max().orElse(0);
    }

    private static void feed(TopologyTestDriver driver, Random random, int records, int moreBytes) {
        TestInputTopic<String, String> left =
                driver.createInputTopic("left", new StringSerializer(), new StringSerializer());
        TestInputTopic<String, String> right =
                driver.createInputTopic("right", new StringSerializer(), new StringSerializer());
        boolean isGlobal = driver.getAllStateStores().keySet().stream().anyMatch(name -> name.startsWith("global"));
        TestInputTopic<String, String> global =
                isGlobal ? driver.createInputTopic("global", new StringSerializer(), new StringSerializer()) : null;
        long time = 1_000_000;
        for (int i = 0; i < records; i++) {
            time += random.nextInt(2 * SPAN_MS / records);
            // Some come late, and some so late that their window is over.
            long at = Math.max(0, time - (random.nextInt(8) == 0 ? random.nextInt(90_000) : random.nextInt(500)));
            String key = "key" + (random.nextInt(4) == 0 ? random.nextInt(200) : random.nextInt(20));
            String value = random.nextInt(12) == 0 ? null : "v" + "x".repeat(random.nextInt(25) + moreBytes) + i;
            (random.nextInt(3) == 0 ? right : left).pipeInput(key, value, at);
            if (isGlobal && i % 5 == 0) {
                global.pipeInput("key" + i % 28, i % 3 == 0 ? null : "g" + i, at);
            }
        }
    }

    private static List<String> emitted(TopologyTestDriver driver) {
        List<String> lines = new ArrayList<>();
        if (driver.producedTopicNames().contains("out")) {
            TestOutputTopic<String, String> out =
                    driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
            for (TestRecord<String, String> record : out.readRecordsToList()) {
                lines.add(record.timestamp() + " " + record.key() + " " + record.value());
            }
        }
        return lines;
    }

    /**
     * Everything in all stores, by every way to walk over it. Stores whose windows are emitted when they close are left
     * out: what they emit is compared, but RocksDB's walk by time and not by key, and have a caching layer of their own.
     * Those with headers are not asked, since RocksDB's know no queries.
     */
    private static List<String> held(TopologyTestDriver driver, boolean isAsked) {
        List<String> lines = new ArrayList<>();
        driver.getAllStateStores().entrySet().stream().filter(store -> !store.getKey().startsWith("final-"))
                .sorted(java.util.Map.Entry.comparingByKey())
                .forEach(store -> {
                    lines.add("store " + store.getKey());
                    hold(store.getValue(), lines);
                    if (isAsked) {
                        ask(store.getValue(), lines);
                    }
                });
        return lines;
    }

    /** Interactive queries of the second kind. */
    private static void ask(StateStore store, List<String> lines) {
        List<Query<?>> queries = List.of(KeyQuery.withKey("key3"), RangeQuery.withRange("key1", "key15"),
                RangeQuery.<String, Object>withNoBounds().withDescendingKeys(), RangeQuery.withUpperBound("key2"),
                TimestampedKeyQuery.withKey("key4"), TimestampedRangeQuery.withLowerBound("key7"),
                WindowKeyQuery.withKeyAndWindowStartRange("key5", Instant.ofEpochMilli(1_000_000),
                        Instant.ofEpochMilli(1_090_000)),
                WindowRangeQuery.withKey("key6"), WindowRangeQuery.withWindowStartRange(
                        Instant.ofEpochMilli(1_020_000), Instant.ofEpochMilli(1_060_000)));
        for (Query<?> query : queries) {
            QueryResult<?> answer;
            try {
                answer = store.query(query, PositionBound.unbounded(), new QueryConfig(false));
            } catch (StreamsException | NullPointerException e) {
                // Stores that joins have for themselves, whose keys are no text.
                lines.add(e.getClass().getSimpleName());
                continue;
            }
            if (answer.isFailure()) {
                lines.add(query.getClass().getSimpleName() + " " + answer.getFailureReason());
            } else if (answer.getResult() instanceof KeyValueIterator<?, ?> items) {
                add(items, lines);
            } else {
                lines.add(query.getClass().getSimpleName() + " " + answer.getResult());
            }
            lines.add(String.valueOf(answer.getPosition()));
        }
    }

    private static void hold(StateStore store, List<String> lines) {
        if (store instanceof KeyValueStore<?, ?> items) {
            add(items.all(), lines);
            try {
                add(items.reverseAll(), lines);
            } catch (UnsupportedOperationException e) {
                // The lists of outer joins are not walked backwards, whoever stores them.
                lines.add("not backwards");
            }
        } else if (store instanceof WindowStore<?, ?> windows) {
            add(windows.all(), lines);
            add(windows.backwardAll(), lines);
            add(windows.fetchAll(1_050_000, 1_100_000), lines);
        } else if (store instanceof SessionStore<?, ?>) {
            @SuppressWarnings("unchecked")
            SessionStore<String, Object> sessions = (SessionStore<String, Object>) store;
            for (int key = 0; key < 200; key++) {
                add(sessions.fetch("key" + key), lines);
                add(sessions.backwardFetch("key" + key), lines);
            }
        }
    }

    private static void add(KeyValueIterator<?, ?> items, List<String> lines) {
        try (items) {
            items.forEachRemaining(item -> lines.add(item.toString()));
        }
    }
}
