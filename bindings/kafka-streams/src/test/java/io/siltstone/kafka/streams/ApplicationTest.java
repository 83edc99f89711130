package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.internals.namedtopology.KafkaStreamsNamedTopologyWrapper;
import org.apache.kafka.streams.processor.internals.namedtopology.NamedTopology;
import org.apache.kafka.streams.processor.internals.namedtopology.NamedTopologyBuilder;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Applications that change their stores or lose their directories, and several in one process; on a real broker. */
@Tag("broker")
class ApplicationTest {
    private static final int PARTITIONS = 2;
    private static final int KEYS = 200;
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GAP = Duration.ofSeconds(20);
    private static final Duration LONG = Duration.ofDays(1);

    private static LocalBroker broker;

    @TempDir
    Path directory;

    @BeforeAll
    static void start() throws Exception {
        broker = new LocalBroker();
    }

    @AfterAll
    static void stop() throws Exception {
        broker.close();
    }

    /** Numbers by key, and what the stores are to hold of them. */
    private static final class Numbers {
        private final String topic;
        private final Random random = new Random(1);
        private final Map<String, Long> sums = new TreeMap<>();
        private final Map<String, Long> counts = new TreeMap<>();
        private final Map<String, TreeMap<Long, Long>> times = new HashMap<>();
        private long time = System.currentTimeMillis() - Duration.ofHours(2).toMillis();

        Numbers(String topic) {
            this.topic = topic;
        }

        void produce(int count) {
            try (KafkaProducer<String, Long> producer = new KafkaProducer<>(
                    Map.of("bootstrap.servers", broker.servers()), new StringSerializer(), new LongSerializer())) {
                for (int i = 0; i < count; i++) {
                    time += random.nextInt(200);
                    String key = "key" + random.nextInt(KEYS);
                    long number = random.nextInt(1000);
                    sums.merge(key, number, Long::sum);
                    counts.merge(key + "@" + (time - time % WINDOW.toMillis()), 1L, Long::sum);
                    times.computeIfAbsent(key, of -> new TreeMap<>()).merge(time, 1L, Long::sum);
                    producer.send(new ProducerRecord<>(topic, null, time, key, number));
                }
            }
        }

        Map<String, Long> sessions() {
            Map<String, Long> sessions = new TreeMap<>();
            times.forEach((key, at) -> {
                long first = at.firstKey();
                long last = first;
                long count = 0;
                for (Map.Entry<Long, Long> one : at.entrySet()) {
                    if (one.getKey() - last > GAP.toMillis()) {
                        sessions.put(key + "@" + first + "-" + last, count);
                        first = one.getKey();
                        count = 0;
                    }
                    last = one.getKey();
                    count += one.getValue();
                }
                sessions.put(key + "@" + first + "-" + last, count);
            });
            return sessions;
        }
    }

    private Properties config(String application, Object suppliers) {
        Properties config = SumApplication.config(broker.servers(), directory.toString());
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 0);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        return config;
    }

    private static void build(StreamsBuilder builder, String topic) {
        KGroupedStream<String, Long> numbers = builder.stream(topic, Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        numbers.reduce(Long::sum, Materialized.as("sums"));
        numbers.windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, LONG)).count(Materialized.as("counts"));
        numbers.windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, LONG)).count(Materialized.as("sessions"));
    }

    /** An application that runs, and counts what it restores. */
    private static final class Running implements AutoCloseable {
        private final KafkaStreams streams;
        private final AtomicLong restored = new AtomicLong();

        Running(Properties config, String topic) {
            StreamsBuilder builder = new StreamsBuilder();
            build(builder, topic);
            streams = new KafkaStreams(builder.build(config), config);
            streams.setGlobalStateRestoreListener(new StateRestoreListener() {
                @Override
                public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

                @Override
                public void onBatchRestored(TopicPartition partition, String store, long to, long count) {}

                @Override
                public void onRestoreEnd(TopicPartition partition, String store, long count) {
                    restored.addAndGet(count);
                }
            });
            streams.start();
        }

        void await(Numbers numbers) throws Exception {
            ApplicationTest.await(() -> {
                assertEquals(numbers.sums, sums(streams.store(StoreQueryParameters.fromNameAndType("sums",
                        QueryableStoreTypes.keyValueStore()))));
                assertEquals(numbers.counts, counts(streams.store(StoreQueryParameters.fromNameAndType("counts",
                        QueryableStoreTypes.windowStore()))));
                assertEquals(numbers.sessions(), sessions(streams.store(StoreQueryParameters.fromNameAndType(
                        "sessions", QueryableStoreTypes.sessionStore()))));
            });
        }

        @Override
        public void close() {
            assertTrue(streams.close(Duration.ofSeconds(30)));
        }
    }

    private interface Check {
        void run() throws Exception;
    }

    /** Waits until stores are there and hold what they should. */
    private static void await(Check check) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
        while (true) {
            try {
                check.run();
                return;
            } catch (AssertionError | InvalidStateStoreException e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
                Thread.sleep(100);
            }
        }
    }

    private static Map<String, Long> sums(ReadOnlyKeyValueStore<String, Long> store) {
        Map<String, Long> found = new TreeMap<>();
        try (KeyValueIterator<String, Long> items = store.all()) {
            items.forEachRemaining(item -> found.put(item.key, item.value));
        }
        return found;
    }

    private static Map<String, Long> counts(ReadOnlyWindowStore<String, Long> store) {
        Map<String, Long> found = new TreeMap<>();
        try (var items = store.all()) {
            items.forEachRemaining(item -> found.put(item.key.key() + "@" + item.key.window().start(), item.value));
        }
        return found;
    }

    private static Map<String, Long> sessions(ReadOnlySessionStore<String, Long> store) {
        Map<String, Long> found = new TreeMap<>();
        for (int key = 0; key < KEYS; key++) {
            try (var items = store.fetch("key" + key)) {
                items.forEachRemaining(item -> found.put(item.key.key() + "@" + item.key.window().start() + "-"
                        + item.key.window().end(), item.value));
            }
        }
        return found;
    }

    /** The directories of engine stores, of all tasks. */
    private List<Path> engineStores() throws Exception {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.filter(file -> file.endsWith(TaskStore.DIRECTORY)).toList();
        }
    }

    /** One application, with the same changelogs and the same directory, and other stores each time it starts. */
    @Test
    void storesMayBeChangedAndComeBack() throws Exception {
        broker.createTopics(PARTITIONS, "numbers");
        Numbers numbers = new Numbers("numbers");
        numbers.produce(2000);
        for (Class<?> suppliers : List.of(BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class,
                SiltstoneDslStoreSuppliers.class, BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class,
                SiltstoneDslStoreSuppliers.class, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class)) {
            try (Running application = new Running(config("switched", suppliers), "numbers")) {
                application.await(numbers);
                numbers.produce(2000);
                application.await(numbers);
            }
        }
        Properties config = config("switched", SiltstoneDslStoreSuppliers.class);
        assertEquals(PARTITIONS, engineStores().size());
        long all;
        // Its directories are cleaned by Kafka, then only what is Siltstone's is deleted: all is restored, each time.
        try (Running application = new Running(config, "numbers")) {
            application.await(numbers);
            assertThrows(IllegalStateException.class, application.streams::cleanUp);
            application.close();
            application.streams.cleanUp();
            assertEquals(List.of(), engineStores());
        }
        try (Running application = new Running(config, "numbers")) {
            application.await(numbers);
            all = application.restored.get();
            assertTrue(all >= numbers.sums.size() + numbers.counts.size(), all + " were restored");
        }
        for (Path store : engineStores()) {
            Utils.delete(store.toFile());
        }
        try (Running application = new Running(config, "numbers")) {
            application.await(numbers);
            assertEquals(all, application.restored.get());
        }
        // And none, where nothing was lost.
        try (Running application = new Running(config, "numbers")) {
            application.await(numbers);
            assertTrue(application.restored.get() < all / 10, application.restored + " were restored");
        }
        assertEquals(0, SiltstoneStores.budgetBytes());
    }

    /** Two applications in one process, in directories of their own and with stores of the same names. */
    @Test
    void applicationsOfAProcessShareTheBudget() throws Exception {
        broker.createTopics(PARTITIONS, "left", "right");
        Numbers left = new Numbers("left");
        Numbers right = new Numbers("right");
        left.produce(1000);
        right.produce(1500);
        Properties first = config("left", SiltstoneDslStoreSuppliers.class);
        first.put(StreamsConfig.STATE_DIR_CONFIG, directory.resolve("one").toString());
        Properties second = config("right", SiltstoneDslStoreSuppliers.class);
        second.put(StreamsConfig.STATE_DIR_CONFIG, directory.resolve("two").toString());
        second.put(SiltstoneConfig.MEMORY_BYTES, 32L << 20);
        try (Running one = new Running(first, "left")) {
            one.await(left);
            try (Running two = new Running(second, "right")) {
                two.await(right);
                assertEquals(2 * PARTITIONS, engineStores().size());
                assertEquals(64 << 20, SiltstoneStores.budgetBytes());
                left.produce(500);
                one.await(left);
                two.await(right);
            }
            left.produce(500);
            one.await(left);
        }
        assertEquals(0, SiltstoneStores.budgetBytes());
        try (Running two = new Running(second, "right")) {
            two.await(right);
            assertEquals(32 << 20, SiltstoneStores.budgetBytes());
        }
    }

    /**
     * Two topologies in one application, whose tasks have the same numbers and whose stores have the same names. What
     * they emit is compared: Kafka's queries find the stores of the wrong topology where names are the same.
     */
    @Test
    void namedTopologiesHaveStoresOfTheirOwn() throws Exception {
        broker.createTopics(PARTITIONS, "early", "late", "early-out", "late-out");
        Map<String, Numbers> inputs = Map.of("early", new Numbers("early"), "late", new Numbers("late"));
        inputs.get("early").produce(1000);
        inputs.get("late").produce(1500);
        Properties config = config("named", SiltstoneDslStoreSuppliers.class);
        Map<String, Long> emitted = new TreeMap<>();
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", broker.servers(),
                "group.id", "test", "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of("early-out", "late-out"));
            for (int round = 0; round < 2; round++) {
                try (KafkaStreamsNamedTopologyWrapper streams = new KafkaStreamsNamedTopologyWrapper(config)) {
                    streams.start(inputs.keySet().stream().map(name -> named(streams, name)).toList());
                    awaitEmitted(consumer, inputs, emitted);
                    inputs.values().forEach(numbers -> numbers.produce(500));
                    awaitEmitted(consumer, inputs, emitted);
                    assertEquals(2 * PARTITIONS, engineStores().size());
                    if (round == 1) {
                        streams.removeNamedTopology("early").all().get(30, TimeUnit.SECONDS);
                        await(() -> streams.cleanUpNamedTopology("early"));
                        await(() -> assertEquals(PARTITIONS, engineStores().size()));
                        inputs.get("late").produce(500);
                        awaitEmitted(consumer, inputs, emitted);
                    }
                    assertTrue(streams.close(Duration.ofSeconds(30)));
                }
            }
        }
        assertEquals(PARTITIONS, engineStores().size());
        assertEquals(0, SiltstoneStores.budgetBytes());
    }

    private static NamedTopology named(KafkaStreamsNamedTopologyWrapper streams, String name) {
        NamedTopologyBuilder builder = streams.newNamedTopologyBuilder(name);
        KGroupedStream<String, Long> numbers = builder.stream(name, Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        Produced<String, Long> types = Produced.with(Serdes.String(), Serdes.Long());
        numbers.reduce(Long::sum, Materialized.as("sums")).toStream().to(name + "-out", types);
        numbers.windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, LONG)).count(Materialized.as("counts"))
                .toStream((window, count) -> window.key() + "@" + window.window().start()).to(name + "-out", types);
        numbers.windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, LONG)).count(Materialized.as("sessions"))
                .toStream((session, count) -> session.key() + "@" + session.window().start() + "-"
                        + session.window().end()).to(name + "-out", types);
        return builder.build();
    }

    private static void awaitEmitted(KafkaConsumer<String, Long> consumer, Map<String, Numbers> inputs,
            Map<String, Long> emitted) throws Exception {
        Map<String, Long> expected = new TreeMap<>();
        inputs.forEach((name, numbers) -> {
            for (Map<String, Long> items : List.of(numbers.sums, numbers.counts, numbers.sessions())) {
                items.forEach((key, number) -> expected.put(name + " " + key, number));
            }
        });
        await(() -> {
            for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                String key = record.topic().replace("-out", "") + " " + record.key();
                if (record.value() == null) {
                    emitted.remove(key);
                } else {
                    emitted.put(key, record.value());
                }
            }
            assertEquals(expected, emitted);
        });
    }
}
