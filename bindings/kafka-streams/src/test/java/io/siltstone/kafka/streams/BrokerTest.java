package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A real broker in this process, and applications in processes of their own, of which some are killed. Sums are made
 * exactly once: a record that is lost or counted twice makes one wrong for good.
 */
@Tag("broker")
class BrokerTest {
    private static final int PARTITIONS = 4;
    private static final int KEYS = 500;
    private static final Duration PATIENCE = Duration.ofSeconds(90);

    @TempDir
    Path directory;

    private final Map<String, Long> expected = new HashMap<>();
    private final Map<String, Long> found = new HashMap<>();
    private final Random random = new Random(1);
    private int produced;
    private int updates;

    /** An application in its process. */
    private final class Instance {
        private final Process process;
        private final Path output;
        private final int earlier;

        Instance(String servers, String name) throws Exception {
            output = directory.resolve(name + ".log");
            earlier = Files.exists(output) ? Files.readAllLines(output).size() : 0;
            process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m",
                    "-cp", System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                    SumApplication.class.getName(), servers, directory.resolve(name).toString())
                    .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(output.toFile()))
                    .start();
        }

        List<String> said(String start) throws Exception {
            List<String> lines = Files.readAllLines(output);
            return lines.subList(Math.min(earlier, lines.size()), lines.size()).stream()
                    .filter(line -> line.startsWith(start)).toList();
        }

        void awaitRunning() throws Exception {
            await("it runs", () -> said("STATE RUNNING").size() > 0);
        }

        long restored() throws Exception {
            return said("RESTORED").stream().mapToLong(line -> Long.parseLong(line.split(" ")[2])).sum();
        }

        void kill() throws Exception {
            process.destroyForcibly();
            assertTrue(process.waitFor(20, TimeUnit.SECONDS));
        }

        void stop() throws Exception {
            process.getOutputStream().close();
            assertTrue(process.waitFor(60, TimeUnit.SECONDS), "it does not end when it is asked to");
            assertEquals(1, said("CLOSED").size());
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void await(String what, Condition condition) throws Exception {
        Instant end = Instant.now().plus(PATIENCE);
        while (!condition.holds()) {
            assertTrue(Instant.now().isBefore(end), "it is not so after " + PATIENCE + ": " + what);
            Thread.sleep(50);
        }
    }

    @Test
    void sumsAreRightWhateverIsKilled() throws Exception {
        TestKitNodes nodes = new TestKitNodes.Builder().setCombined(true).setNumBrokerNodes(1)
                .setNumControllerNodes(1).build();
        List<Instance> instances = new ArrayList<>();
        try (KafkaClusterTestKit cluster = new KafkaClusterTestKit.Builder(nodes)
                .setConfigProp("offsets.topic.num.partitions", "1")
                .setConfigProp("offsets.topic.replication.factor", "1")
                .setConfigProp("transaction.state.log.num.partitions", "1")
                .setConfigProp("transaction.state.log.replication.factor", "1")
                .setConfigProp("transaction.state.log.min.isr", "1")
                .setConfigProp("group.min.session.timeout.ms", "500")
                .setConfigProp("group.initial.rebalance.delay.ms", "0")
                .build()) {
            cluster.format();
            cluster.startup();
            cluster.waitForReadyBrokers();
            String servers = cluster.bootstrapServers();
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
                admin.createTopics(List.of(new NewTopic("numbers", PARTITIONS, (short) 1),
                        new NewTopic("sums", PARTITIONS, (short) 1))).all().get();
            }
            try (KafkaProducer<String, Long> producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers),
                    new StringSerializer(), new LongSerializer());
                    KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", servers,
                            "group.id", "test", "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                            new StringDeserializer(), new LongDeserializer())) {
                consumer.subscribe(List.of("sums"));
                play(servers, producer, consumer, instances);
            }
        } finally {
            for (Instance instance : instances) {
                instance.kill();
            }
        }
    }

    @Test
    void theExampleIsRightWithFewKeys() throws Exception {
        Example.run(20_000);
    }

    private void play(String servers, KafkaProducer<String, Long> producer, KafkaConsumer<String, Long> consumer,
            List<Instance> instances) throws Exception {
        Instance first = start(servers, "first", instances);
        first.awaitRunning();
        produce(producer, 20_000);
        awaitSums(consumer);

        // A second one stands by. The first is killed in the middle of its work, and the second takes over from what it has.
        Instance second = start(servers, "second", instances);
        second.awaitRunning();
        produce(producer, 20_000);
        awaitSums(consumer);
        long restoredBefore = second.restored();
        produce(producer, 20_000);
        awaitSome(consumer);
        first.kill();
        awaitSums(consumer);
        long takenOver = second.restored() - restoredBefore;
        assertTrue(takenOver < 30_000, "standing by saved nothing: " + takenOver + " records were restored");

        // The one that was killed comes back to its directory, with what its last transaction left there.
        first = start(servers, "first", instances);
        first.awaitRunning();
        Instance third = start(servers, "third", instances);
        third.awaitRunning();
        produce(producer, 20_000);
        awaitSome(consumer);
        second.kill();
        awaitSums(consumer);

        // Down to one again, in order this time.
        produce(producer, 20_000);
        awaitSome(consumer);
        first.stop();
        produce(producer, 5_000);
        awaitSums(consumer);
        third.stop();
        // What it left is whole: one that opens the same directory goes on from there.
        third = start(servers, "third", instances);
        third.awaitRunning();
        produce(producer, 5_000);
        awaitSums(consumer);
        assertTrue(third.restored() < 5_000, third.restored() + " records were restored after an orderly end");
        third.stop();
        assertEquals(produced, updates, "each record makes one update");
    }

    private Instance start(String servers, String name, List<Instance> instances) throws Exception {
        Instance instance = new Instance(servers, name);
        instances.add(instance);
        return instance;
    }

    private void produce(KafkaProducer<String, Long> producer, int count) {
        for (int i = 0; i < count; i++) {
            String key = "key" + random.nextInt(KEYS);
            long number = random.nextInt(1000);
            expected.merge(key, number, Long::sum);
            producer.send(new ProducerRecord<>("numbers", key, number));
        }
        producer.flush();
        produced += count;
    }

    private void poll(KafkaConsumer<String, Long> consumer) {
        for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
            found.put(record.key(), record.value());
            updates++;
        }
    }

    /** Waits until some of what was produced last is done, but not all of it. */
    private void awaitSome(KafkaConsumer<String, Long> consumer) throws Exception {
        int before = updates;
        await("it works", () -> {
            poll(consumer);
            return updates > before;
        });
    }

    private void awaitSums(KafkaConsumer<String, Long> consumer) throws Exception {
        await("all is summed", () -> {
            poll(consumer);
            return updates >= produced;
        });
        assertEquals(produced, updates);
        assertEquals(expected, found);
    }
}
