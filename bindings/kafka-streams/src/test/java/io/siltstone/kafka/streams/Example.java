package io.siltstone.kafka.streams;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * Counts words, and joins views with clicks that come within a minute, over a number of keys, a million where none is
 * named. It starts a broker in this process, needs no network, checks what came out and says what it took.
 */
public final class Example {
    private static final int PARTITIONS = 4;

    private final int keys;
    private final Map<String, Long> expectedCounts = new HashMap<>();
    private int expectedJoins;

    private Example(int keys) {
        this.keys = keys;
    }

    public static void main(String[] arguments) throws Exception {
        new Example(arguments.length == 0 ? 1_000_000 : Integer.parseInt(arguments[0])).run();
    }

    /** Runs it with so many keys. */
    static void run(int keys) throws Exception {
        new Example(keys).run();
    }

    private static Topology topology(Properties config) {
        var text = Serdes.String();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(text, text))
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with("words", text, text))
                .count()
                .toStream()
                .to("counts", Produced.with(text, Serdes.Long()));
        KStream<String, String> views = builder.stream("views", Consumed.with(text, text));
        KStream<String, String> clicks = builder.stream("clicks", Consumed.with(text, text));
        views.join(clicks, (view, click) -> view + " " + click,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(10)),
                StreamJoined.with(text, text, text).withName("clicked")).to("clicked", Produced.with(text, text));
        return builder.build(config);
    }

    private void run() throws Exception {
        Path directory = Files.createTempDirectory("siltstone-example");
        try (LocalBroker broker = new LocalBroker()) {
            String servers = broker.servers();
            broker.createTopics(PARTITIONS, "lines", "counts", "views", "clicks", "clicked");
            produce(servers);
            Properties config = new Properties();
            config.put(StreamsConfig.APPLICATION_ID_CONFIG, "example");
            config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
            config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
            config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, SiltstoneDslStoreSuppliers.class);
            config.put(SiltstoneConfig.MEMORY_BYTES, 128L << 20);
            config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
            config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
            config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
            long begun = System.nanoTime();
            try (KafkaStreams streams = new KafkaStreams(topology(config), config)) {
                streams.start();
                check(servers);
                double seconds = (System.nanoTime() - begun) / 1e9;
                System.out.printf("%d words counted and %d clicks joined with their views, in %.1f s; the stores held %d"
                        + " MiB of %d%n", expectedCounts.size(), expectedJoins, seconds,
                        SiltstoneStores.memoryBytes() >> 20, SiltstoneStores.budgetBytes() >> 20);
            }
        } finally {
            remove(directory);
        }
    }

    /** Each key is a word, which some lines have twice, and something that is viewed, and clicked by every third. */
    private void produce(String servers) {
        Random random = new Random(1);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", servers, "linger.ms", "20", "batch.size", "262144"),
                new StringSerializer(), new StringSerializer())) {
            // Lately, or the broker would take the records for older than it keeps.
            long time = System.currentTimeMillis() - Duration.ofMinutes(10).toMillis();
            List<String> words = new ArrayList<>();
            for (int key = 0; key < keys; key++) {
                String word = "word" + key;
                int times = 1 + random.nextInt(2);
                for (int i = 0; i < times; i++) {
                    words.add(word);
                }
                expectedCounts.put(word, (long) times);
                if (words.size() >= 8) {
                    producer.send(new ProducerRecord<>("lines", null, time, "line" + key, String.join(" ", words)));
                    words.clear();
                }
                producer.send(new ProducerRecord<>("views", null, time, "page" + key, "view" + key));
                if (key % 3 == 0) {
                    producer.send(new ProducerRecord<>("clicks", null, time + 1000, "page" + key, "click" + key));
                    expectedJoins++;
                }
                time += key % 10 == 0 ? 1 : 0;
            }
            if (!words.isEmpty()) {
                producer.send(new ProducerRecord<>("lines", null, time, "last", String.join(" ", words)));
            }
        }
    }

    private void check(String servers) {
        Map<String, Object> config =
                Map.of("bootstrap.servers", servers, "group.id", "check", "auto.offset.reset", "earliest");
        long end = System.nanoTime() + Duration.ofMinutes(10).toNanos();
        int wrong = expectedCounts.size();
        try (KafkaConsumer<String, Long> counts =
                new KafkaConsumer<>(config, new StringDeserializer(), new LongDeserializer())) {
            counts.subscribe(List.of("counts"));
            Map<String, Long> last = new HashMap<>();
            while (wrong > 0) {
                for (ConsumerRecord<String, Long> record : counts.poll(Duration.ofMillis(200))) {
                    Long expected = expectedCounts.get(record.key());
                    boolean wasRight = expected.equals(last.put(record.key(), record.value()));
                    wrong += (wasRight ? 1 : 0) - (expected.equals(record.value()) ? 1 : 0);
                }
                checkTime(end, wrong + " counts are not right");
            }
        }
        int joined = 0;
        try (KafkaConsumer<String, String> clicked =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            clicked.subscribe(List.of("clicked"));
            while (joined < expectedJoins) {
                for (ConsumerRecord<String, String> record : clicked.poll(Duration.ofMillis(200))) {
                    String number = record.key().substring("page".length());
                    if (!record.value().equals("view" + number + " click" + number)) {
                        throw new IllegalStateException(record.key() + " was joined to " + record.value());
                    }
                    joined++;
                }
                checkTime(end, joined + " of " + expectedJoins + " clicks are joined");
            }
        }
    }

    private static void checkTime(long end, String what) {
        if (System.nanoTime() > end) {
            throw new IllegalStateException("after ten minutes " + what);
        }
    }

    private static void remove(Path directory) throws Exception {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }
}
