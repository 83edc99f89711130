package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.siltstone.KeyIterator;
import io.siltstone.Keyspace;
import io.siltstone.Options;
import io.siltstone.Range;
import io.siltstone.Store;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A real broker in this process, and applications in processes of their own, of which some are killed. Sums and counts
 * are made exactly once: a record that is lost or counted twice makes one wrong for good.
 */
@Tag("broker")
class BrokerTest {
    private static final int PARTITIONS = 4;
    private static final int KEYS = 500;
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    /** Three probing rebalances: a task that is lately behind waits for the next one. */
    private static final Duration HANDOVER = Duration.ofSeconds(200);
    /** Ends of transactions at the end of a changelog, which are places in it and no records. */
    private static final int MARKS = 12;

    @TempDir
    Path directory;

    /** Of each topic what it should say, what it says, and how often it said something. */
    private final Map<String, Map<String, Long>> expected = new HashMap<>();
    private final Map<String, Map<String, Long>> found = new HashMap<>();
    private final Map<String, Integer> updates = new HashMap<>();
    private final Random random = new Random(1);
    private final long firstTime = System.currentTimeMillis() - 3_600_000;
    private int produced;

    /** An application in its process. */
    private final class Instance {
        private final String name;
        private final Process process;
        private final Path output;
        private final int earlier;

        Instance(String servers, String name) throws Exception {
            this.name = name;
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
            return said("RESTORED").stream().mapToLong(line -> Long.parseLong(line.split(" ")[3])).sum();
        }

        /** Waits until it has all stores, its own and those that it stands by for, and they lack nothing but marks. */
        void awaitUpToDate() throws Exception {
            await(name + " is up to date", () -> {
                List<String> lags = said("LAG");
                String[] last = lags.isEmpty() ? new String[] {"", "0", "0"} : lags.get(lags.size() - 1).split(" ");
                return last[1].equals("" + 2 * PARTITIONS) && Long.parseLong(last[2]) <= MARKS;
            });
        }

        /** The tasks that it works on, as it said last. */
        Set<String> active() throws Exception {
            List<String> lines = said("ACTIVE");
            String last = lines.isEmpty() ? "" : lines.get(lines.size() - 1).substring("ACTIVE".length()).strip();
            return last.isEmpty() ? Set.of() : new TreeSet<>(List.of(last.split(" ")));
        }

        /** Where it first began to restore a store, or to follow its changelog as a standby. */
        Long beganAt(String store, int partition) throws Exception {
            return Stream.concat(said("RESTORE " + store + " " + partition + " ").stream(),
                    said("STANDBY " + store + " " + partition + " ").stream())
                    .map(line -> Long.parseLong(line.split(" ")[3])).min(Long::compare).orElse(null);
        }

        /** Stores of its tasks that hold writes of an unfinished transaction: what a task is, and its store. */
        Set<String> marked() throws Exception {
            Set<String> marked = new TreeSet<>();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                Path task = directory.resolve(name).resolve("sums").resolve("0_" + partition)
                        .resolve(TaskStore.DIRECTORY);
                if (!Files.exists(task.resolve("CURRENT"))) {
                    continue;
                }
                try (Store store = Store.open(task, new Options().readOnly(true))) {
                    Keyspace meta = store.existingKeyspace(TaskStore.META).orElseThrow();
                    try (KeyIterator keys = meta.iterate(new Range().keysOnly())) {
                        while (keys.next()) {
                            String[] key = new String(keys.key(), StandardCharsets.UTF_8).split("/");
                            if (key[2].equals(BaseStore.MARK)) {
                                marked.add(key[1] + " " + partition);
                            }
                        }
                    }
                }
            }
            return marked;
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
        await(what, PATIENCE, condition);
    }

    private static void await(String what, Duration patience, Condition condition) throws Exception {
        Instant end = Instant.now().plus(patience);
        while (!condition.holds()) {
            assertTrue(Instant.now().isBefore(end), "it is not so after " + patience + ": " + what);
            Thread.sleep(50);
        }
    }

    @Test
    void sumsAreRightWhateverIsKilled() throws Exception {
        List<Instance> instances = new ArrayList<>();
        try (LocalBroker broker = new LocalBroker()) {
            String servers = broker.servers();
            broker.createTopics(PARTITIONS, "numbers", SumApplication.SUMS, SumApplication.COUNTS);
            try (KafkaProducer<String, Long> producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers),
                    new StringSerializer(), new LongSerializer());
                    KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", servers,
                            "group.id", "test", "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                            new StringDeserializer(), new LongDeserializer())) {
                consumer.subscribe(List.of(SumApplication.SUMS, SumApplication.COUNTS));
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
        second.awaitUpToDate();
        Map<String, Long> ends = ends(consumer);
        int before = second.said("RESTORE ").size();
        Set<String> marked = killInTransaction(first, producer, consumer);
        awaitSums(consumer);
        List<String> takenOver = second.said("RESTORE ");
        takenOver = takenOver.subList(before, takenOver.size());
        assertTrue(takenOver.size() >= 2, "it took nothing over: " + takenOver);
        for (String line : takenOver) {
            String[] words = line.split(" ");
            long end = ends.get(words[1] + " " + words[2]);
            assertTrue(Long.parseLong(words[3]) >= end - MARKS, "standing by saved nothing: " + line + " of " + end);
        }

        // The one that was killed comes back to its directory, with what its last transaction left there. Its tasks that
        // hold some of that begin again, and the others go on.
        first = start(servers, "first", instances);
        first.awaitRunning();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            boolean isMarked = false;
            for (String store : List.of(SumApplication.SUMS, SumApplication.COUNTS)) {
                isMarked |= marked.contains(store + " " + partition);
            }
            for (String store : List.of(SumApplication.SUMS, SumApplication.COUNTS)) {
                Instance returned = first;
                int of = partition;
                await(store + " " + partition + " is followed", () -> returned.beganAt(store, of) != null);
                assertEquals(isMarked, first.beganAt(store, partition) == 0, store + " " + partition + " of " + marked);
            }
        }
        Instance third = start(servers, "third", instances);
        third.awaitRunning();
        // Three share the work: each has tasks, none has another's, and their sums are right.
        List<Instance> three = List.of(first, second, third);
        awaitShared(three);
        produce(producer, 20_000);
        awaitSums(consumer);
        awaitShared(three);
        killInTransaction(second, producer, consumer);
        awaitSums(consumer);

        // Down to one again, in order this time.
        produce(producer, 20_000);
        awaitSome(consumer);
        first.stop();
        produce(producer, 5_000);
        awaitSums(consumer);
        Instance last = third;
        await("the third has all tasks", () -> last.active().size() == PARTITIONS);
        third.stop();
        // What it left is whole: one that opens the same directory goes on from there.
        third = start(servers, "third", instances);
        third.awaitRunning();
        produce(producer, 5_000);
        awaitSums(consumer);
        assertTrue(third.restored() < 5_000, third.restored() + " records were restored after an orderly end");
        third.stop();
    }

    /** Waits until each instance works on tasks of its own. Kafka hands some of them over after a minute at the earliest. */
    private static void awaitShared(List<Instance> instances) throws Exception {
        await("each has tasks", HANDOVER, () -> {
            Set<String> tasks = new TreeSet<>();
            int count = 0;
            for (Instance instance : instances) {
                Set<String> active = instance.active();
                if (active.isEmpty()) {
                    return false;
                }
                tasks.addAll(active);
                count += active.size();
            }
            return count == PARTITIONS && tasks.size() == PARTITIONS;
        });
    }

    /** Kills an instance whose stores hold writes of a transaction that is not finished; returns which stores do. */
    private Set<String> killInTransaction(Instance instance, KafkaProducer<String, Long> producer,
            KafkaConsumer<String, Long> consumer) throws Exception {
        produce(producer, 20_000);
        awaitSome(consumer);
        await("a transaction reaches the engine", () -> {
            if (!instance.marked().isEmpty()) {
                return true;
            }
            produce(producer, 500);
            return false;
        });
        instance.kill();
        Set<String> marked = instance.marked();
        assertFalse(marked.isEmpty(), "it was committed at that very moment");
        return marked;
    }

    /** Where the stores' changelogs end. */
    private static Map<String, Long> ends(KafkaConsumer<String, Long> consumer) {
        Map<String, Long> ends = new HashMap<>();
        for (String store : List.of(SumApplication.SUMS, SumApplication.COUNTS)) {
            for (int partition = 0; partition < PARTITIONS; partition++) {
                TopicPartition changelog = new TopicPartition("sums-" + store + "-changelog", partition);
                ends.put(store + " " + partition, consumer.endOffsets(List.of(changelog)).get(changelog));
            }
        }
        return ends;
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
            long time = firstTime + (produced + i) * 10L;
            expected.computeIfAbsent(SumApplication.SUMS, topic -> new HashMap<>()).merge(key, number, Long::sum);
            expected.computeIfAbsent(SumApplication.COUNTS, topic -> new HashMap<>())
                    .merge(key + "@" + (time - time % SumApplication.WINDOW.toMillis()), 1L, Long::sum);
            producer.send(new ProducerRecord<>("numbers", null, time, key, number));
        }
        producer.flush();
        produced += count;
    }

    private void poll(KafkaConsumer<String, Long> consumer) {
        for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
            found.computeIfAbsent(record.topic(), topic -> new HashMap<>()).put(record.key(), record.value());
            updates.merge(record.topic(), 1, Integer::sum);
        }
    }

    /** Waits until some of what was produced last is done, but not all of it. */
    private void awaitSome(KafkaConsumer<String, Long> consumer) throws Exception {
        int before = updates.get(SumApplication.SUMS);
        await("it works", () -> {
            poll(consumer);
            return updates.get(SumApplication.SUMS) > before;
        });
    }

    /** Waits until everything is done. Each record makes one update of a sum and one of a count. */
    private void awaitSums(KafkaConsumer<String, Long> consumer) throws Exception {
        await("all is summed", () -> {
            poll(consumer);
            return updates.getOrDefault(SumApplication.SUMS, 0) >= produced
                    && updates.getOrDefault(SumApplication.COUNTS, 0) >= produced;
        });
        assertEquals(Map.of(SumApplication.SUMS, produced, SumApplication.COUNTS, produced), updates);
        assertEquals(expected, found);
    }
}
