package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
    private static final long STEP_MS = 20;
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    /** Ends of transactions at the end of a changelog, which are places in it and no records. */
    private static final int MARKS = 12;
    /** Of which each task is a partition's, and its stores, by the first number of the task's name. */
    private static final List<String> INPUTS = List.of(SumApplication.NUMBERS, SumApplication.OTHERS);
    private static final int TASKS = INPUTS.size() * PARTITIONS;
    private static final List<String> OUTPUTS = List.of(SumApplication.SUMS, SumApplication.COUNTS,
            SumApplication.SESSIONS, SumApplication.CLOSED, SumApplication.FINAL);
    /** What holds a window once it is closed, and nothing else. */
    private static final List<String> ONCE = List.of(SumApplication.CLOSED, SumApplication.FINAL);

    @TempDir
    Path directory;

    /** Of each topic what it should say and how often, and what it says and how often it said something. */
    private final Map<String, Map<String, Long>> expected = new HashMap<>();
    private final Map<String, Map<String, Long>> found = new HashMap<>();
    private final Map<String, Integer> expectedUpdates = new HashMap<>();
    private final Map<String, Integer> updates = new HashMap<>();
    /** Of each key when its last session began and ended. */
    private final Map<String, long[]> sessions = new HashMap<>();
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

        /** How many records it restored, without those of the store that is in memory. */
        long restored() throws Exception {
            return said("RESTORED").stream().filter(line -> !line.split(" ")[1].equals(SumApplication.SUPPRESSED))
                    .mapToLong(line -> Long.parseLong(line.split(" ")[3])).sum();
        }

        /** Waits until it has all stores, its own and those that it stands by for, and they lack nothing but marks. */
        void awaitUpToDate() throws Exception {
            await(name + " is up to date", () -> {
                List<String> lags = said("LAG");
                String[] last = lags.isEmpty() ? new String[] {"", "0", "0"} : lags.get(lags.size() - 1).split(" ");
                return last[1].equals("" + changelogs().size()) && Long.parseLong(last[2]) <= MARKS;
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

        /** Stores of its tasks that hold writes of an unfinished transaction: the store's name, and its partition. */
        Set<String> marked() throws Exception {
            Set<String> marked = new TreeSet<>();
            for (int task = 0; task < TASKS; task++) {
                int partition = task % PARTITIONS;
                Path state = directory.resolve(name).resolve("sums").resolve(task / PARTITIONS + "_" + partition)
                        .resolve(TaskStore.DIRECTORY);
                if (!Files.exists(state.resolve("CURRENT"))) {
                    continue;
                }
                try (Store store = Store.open(state, new Options().readOnly(true))) {
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
            broker.createTopics(PARTITIONS, INPUTS.toArray(String[]::new));
            broker.createTopics(PARTITIONS, OUTPUTS.toArray(String[]::new));
            try (KafkaProducer<String, Long> producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers),
                    new StringSerializer(), new LongSerializer());
                    KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", servers,
                            "group.id", "test", "auto.offset.reset", "earliest", "isolation.level", "read_committed"),
                            new StringDeserializer(), new LongDeserializer())) {
                consumer.subscribe(OUTPUTS);
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
        produce(producer, 10_000);
        awaitSums(consumer);

        // A second one stands by. The first is killed in the middle of its work, and the second takes over from what it has.
        Instance second = start(servers, "second", instances);
        second.awaitRunning();
        produce(producer, 10_000);
        awaitSums(consumer);
        second.awaitUpToDate();
        Map<TopicPartition, Long> ends = consumer.endOffsets(changelogs().values());
        int before = second.said("RESTORE ").size();
        Set<String> marked = killInTransaction(first, producer, consumer);
        awaitSums(consumer);
        List<String> takenOver = second.said("RESTORE ");
        takenOver = takenOver.subList(before, takenOver.size());
        assertTrue(takenOver.size() >= 2, "it took nothing over: " + takenOver);
        for (String line : takenOver) {
            String[] words = line.split(" ");
            long end = ends.get(changelogs().get(words[1] + " " + words[2]));
            assertTrue(Long.parseLong(words[3]) >= end - MARKS, "standing by saved nothing: " + line + " of " + end);
        }

        first = comeBack(servers, marked, instances);
        Instance third = start(servers, "third", instances);
        third.awaitRunning();
        // Three share the work: each has tasks, none has another's, and their sums are right.
        List<Instance> three = List.of(first, second, third);
        awaitShared(three);
        produce(producer, 10_000);
        awaitSums(consumer);
        awaitShared(three);
        assertTrue(third.restored() > 0, "it restored nothing, as if all were there");
        killInTransaction(second, producer, consumer);
        awaitSums(consumer);

        // Down to one again, in order this time.
        produce(producer, 10_000);
        awaitSome(consumer);
        first.stop();
        produce(producer, 5_000);
        awaitSums(consumer);
        Instance last = third;
        await("the third has all tasks", () -> last.active().size() == TASKS);
        third.stop();
        // What it left is whole: one that opens the same directory restores nothing and goes on from there.
        third = start(servers, "third", instances);
        third.awaitRunning();
        produce(producer, 5_000);
        awaitSums(consumer);
        assertEquals(0, third.restored(), "records were restored after an orderly end");
        closeWindows(producer);
        awaitSums(consumer);
        third.stop();
        readToTheEnds(consumer);
    }

    /**
     * The one that was killed comes back to its directory, with what its last transaction left there. Its tasks that hold
     * some of that begin again, and the others go on.
     */
    private Instance comeBack(String servers, Set<String> marked, List<Instance> instances) throws Exception {
        Instance instance = start(servers, "first", instances);
        instance.awaitRunning();
        for (int task = 0; task < TASKS; task++) {
            int partition = task % PARTITIONS;
            List<String> stores = SumApplication.STORES.get(INPUTS.get(task / PARTITIONS));
            boolean isMarked = stores.stream().anyMatch(store -> marked.contains(store + " " + partition));
            for (String store : stores) {
                await(store + " " + partition + " is followed", () -> instance.beganAt(store, partition) != null);
                assertEquals(isMarked, instance.beganAt(store, partition) == 0, store + " " + partition + " of " + marked);
            }
        }
        return instance;
    }

    /** Waits until each instance works on tasks of its own. */
    private static void awaitShared(List<Instance> instances) throws Exception {
        await("each has tasks", () -> {
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
            return count == TASKS && tasks.size() == TASKS;
        });
    }

    /** Kills an instance whose stores hold writes of a transaction that is not finished; returns which stores do. */
    private Set<String> killInTransaction(Instance instance, KafkaProducer<String, Long> producer,
            KafkaConsumer<String, Long> consumer) throws Exception {
        produce(producer, 10_000);
        awaitSome(consumer);
        await("a transaction reaches the engine", () -> {
            if (areOfEachInput(instance.marked())) {
                return true;
            }
            produce(producer, 500);
            return false;
        });
        instance.kill();
        Set<String> marked = instance.marked();
        assertTrue(areOfEachInput(marked), "it was committed at that very moment: " + marked);
        return marked;
    }

    /** Whether there is a task of each input among those whose stores are marked. */
    private static boolean areOfEachInput(Set<String> marked) {
        return SumApplication.STORES.values().stream().allMatch(stores -> marked.stream()
                .anyMatch(store -> stores.contains(store.substring(0, store.indexOf(' ')))));
    }

    /** The stores' changelogs, by the store's name and its partition. */
    private static Map<String, TopicPartition> changelogs() {
        Map<String, TopicPartition> changelogs = new HashMap<>();
        Stream.concat(SumApplication.STORES.values().stream().flatMap(List::stream),
                Stream.of(SumApplication.SUPPRESSED)).forEach(store -> {
                    for (int partition = 0; partition < PARTITIONS; partition++) {
                        changelogs.put(store + " " + partition,
                                new TopicPartition("sums-" + store + "-changelog", partition));
                    }
                });
        return changelogs;
    }

    private Instance start(String servers, String name, List<Instance> instances) throws Exception {
        Instance instance = new Instance(servers, name);
        instances.add(instance);
        return instance;
    }

    private void produce(KafkaProducer<String, Long> producer, int count) {
        for (int i = 0; i < count; i++) {
            String key = "key" + random.nextInt(KEYS);
            long time = firstTime + (produced + i) * STEP_MS;
            send(producer, null, time, key);
            String window = key + "@" + start(time);
            ONCE.forEach(topic -> expect(topic, window, 1));
        }
        producer.flush();
        produced += count;
    }

    /** Closes all windows by one more record in each partition, and expects nothing of their own windows. */
    private void closeWindows(KafkaProducer<String, Long> producer) {
        long time = firstTime + produced * STEP_MS + SumApplication.WINDOW.plus(SumApplication.GRACE).toMillis();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            send(producer, partition, time, "end" + partition);
        }
        producer.flush();
        produced += PARTITIONS;
    }

    private void send(KafkaProducer<String, Long> producer, Integer partition, long time, String key) {
        long number = random.nextInt(1000);
        expect(SumApplication.SUMS, key, number);
        expect(SumApplication.COUNTS, key + "@" + start(time), 1);
        // A session that goes on is one that is removed, and another one.
        long[] session = sessions.computeIfAbsent(key, of -> new long[] {time, time});
        if (time - session[1] > SumApplication.GAP.toMillis()) {
            session[0] = time;
        } else if (time > session[1]) {
            expectedUpdates.merge(SumApplication.SESSIONS, 1, Integer::sum);
        }
        session[1] = time;
        expect(SumApplication.SESSIONS, key + "@" + session[0], 1);
        for (String topic : List.of(SumApplication.SUMS, SumApplication.COUNTS, SumApplication.SESSIONS)) {
            expectedUpdates.merge(topic, 1, Integer::sum);
        }
        INPUTS.forEach(topic -> producer.send(new ProducerRecord<>(topic, partition, time, key, number)));
    }

    private static long start(long time) {
        return time - time % SumApplication.WINDOW.toMillis();
    }

    private void expect(String topic, String key, long number) {
        expected.computeIfAbsent(topic, of -> new HashMap<>()).merge(key, number, Long::sum);
    }

    private void poll(KafkaConsumer<String, Long> consumer) {
        for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
            Map<String, Long> items = found.computeIfAbsent(record.topic(), topic -> new HashMap<>());
            if (record.value() == null) {
                items.remove(record.key());
            } else {
                items.put(record.key(), record.value());
            }
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

    /** Waits until everything is done. What each record changes is known, apart from which windows it closes. */
    private void awaitSums(KafkaConsumer<String, Long> consumer) throws Exception {
        await("all is summed", () -> {
            poll(consumer);
            return expectedUpdates.entrySet().stream()
                    .allMatch(topic -> updates.getOrDefault(topic.getKey(), 0) >= topic.getValue());
        });
        assertSums();
    }

    /** Reads all there is, when nobody writes any more: nothing was said once too often, and all windows were emitted. */
    private void readToTheEnds(KafkaConsumer<String, Long> consumer) throws Exception {
        Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
        assertEquals(OUTPUTS.size() * PARTITIONS, ends.size());
        await("all is read", () -> {
            poll(consumer);
            return ends.keySet().stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition));
        });
        assertSums();
        ONCE.forEach(topic -> assertEquals(expected.get(topic), found.get(topic)));
    }

    private void assertSums() {
        expectedUpdates.forEach((topic, count) -> {
            assertEquals(count, updates.get(topic), topic);
            assertEquals(expected.get(topic), found.get(topic), topic);
        });
        for (String topic : ONCE) {
            Map<String, Long> windows = found.getOrDefault(topic, Map.of());
            assertEquals(windows.size(), updates.getOrDefault(topic, 0), "windows that were emitted, of " + topic);
            windows.forEach((window, count) -> assertEquals(expected.get(topic).get(window), count, topic + " " + window));
        }
    }
}
