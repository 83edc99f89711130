package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a store's metrics say: each of them moves with what it is of, and RocksDB's others are known by name. */
class MetricsTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("changelog", 0);
    /** RocksDB's that are not here; docs/kafka-streams.md says why. */
    private static final Set<String> NOT_HERE = Set.of("memtable-hit-ratio", "block-cache-index-hit-ratio",
            "block-cache-filter-hit-ratio", "block-cache-pinned-usage", "compaction-pending",
            "estimate-pending-compaction-bytes", "num-live-versions");

    @TempDir
    Path directory;

    private InternalMockProcessorContext<?, ?> context;

    private <S extends StateStore> S open(S store, long budget) {
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, budget);
        // RocksDB has some of its metrics at this level alone.
        config.put(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG, "DEBUG");
        context = new InternalMockProcessorContext<>(directory.resolve("0_0").toFile(), Serdes.ByteArray(),
                Serdes.ByteArray(), new StreamsConfig(config));
        store.init(context, store);
        return store;
    }

    private Map<String, Double> metrics(StateStore store) {
        Map<String, Double> found = new HashMap<>();
        for (Metric metric : context.metrics().metrics().values()) {
            if (metric.metricName().tags().containsValue(store.name()) && metric.metricValue() instanceof Number value) {
                found.put(metric.metricName().name(), value.doubleValue());
            }
        }
        return found;
    }

    private double metric(StateStore store, String name) {
        Double value = metrics(store).get(name);
        assertTrue(value != null, "there is no " + name);
        return value;
    }

    private static Bytes key(int number) {
        return Bytes.wrap(ByteBuffer.allocate(8).putLong(number * 0x9E3779B97F4A7C15L).array());
    }

    private static byte[] value(Random random) {
        byte[] value = new byte[200];
        random.nextBytes(value);
        return value;
    }

    @Test
    void rocksDbsNamesAreHereOrNamed() {
        KeyValueStore<Bytes, byte[]> theirs = open(Stores.persistentKeyValueStore("theirs").get(), 1 << 20);
        Set<String> expected = new TreeSet<>(metrics(theirs).keySet());
        theirs.close();
        KeyValueStore<Bytes, byte[]> store = open(SiltstoneStores.keyValueStore("store").get(), 1 << 20);
        Set<String> found = new TreeSet<>(metrics(store).keySet());
        store.close();
        assertTrue(expected.size() > 40, expected.toString());
        assertTrue(expected.containsAll(NOT_HERE), expected.toString());
        expected.removeAll(NOT_HERE);
        expected.add("iterators-usage");
        assertEquals(expected, found);
    }

    @Test
    void theyMove() throws Exception {
        KeyValueStore<Bytes, byte[]> store = open(SiltstoneStores.keyValueStore("store").get(), 1 << 20);
        Map<String, Double> before = metrics(store);
        Set<String> ofTheProcess = Set.of("block-cache-capacity", "block-cache-usage", "number-open-files");
        before.forEach((name, value) -> assertTrue(ofTheProcess.contains(name) || value == 0, name + " is " + value + " before anything was done"));
        assertEquals(1 << 20, before.get("block-cache-capacity"));
        // Few writes stay in a write buffer.
        Random random = new Random(1);
        long written = 0;
        for (int i = 0; i < 20; i++) {
            byte[] value = i % 4 == 0 ? null : value(random);
            store.put(key(i), value);
            written += 8 + (value == null ? 0 : value.length);
        }
        store.commit(Map.of(CHANGELOG, 1L));
        assertEquals(20, metric(store, "num-entries-active-mem-table"));
        assertEquals(5, metric(store, "num-deletes-active-mem-table"));
        assertTrue(metric(store, "cur-size-active-mem-table") >= written);
        // Written until each of those was seen that are there for moments alone.
        Set<String> momentary = new TreeSet<>(Set.of("num-running-flushes", "num-running-compactions",
                "num-immutable-mem-table", "mem-table-flush-pending", "num-entries-imm-mem-tables",
                "num-deletes-imm-mem-tables", "write-stall-duration-total", "write-stall-duration-avg"));
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        for (int i = 0; i < 30_000 || !momentary.isEmpty(); i++) {
            byte[] value = i % 4 == 0 ? null : value(random);
            store.put(key(i % 20_000), value);
            written += 8 + (value == null ? 0 : value.length);
            // Each of these is more than a write buffer may hold, so the next one waits for its flush.
            for (int large = 0; i % 5000 == 2500 && large < 8; large++) {
                byte[] much = new byte[400 << 10];
                random.nextBytes(much);
                store.put(key(20_000 + large), much);
                written += 8 + much.length;
            }
            if (i % 100 == 0) {
                Map<String, Double> now = metrics(store);
                momentary.removeIf(name -> now.get(name) > 0);
                assertTrue(System.nanoTime() < end, momentary + " did not move");
            }
        }
        store.commit(Map.of(CHANGELOG, 1L));
        long read = 0;
        for (int i = 0; i < 20_000; i += 3) {
            byte[] value = store.get(key(i));
            read += value == null ? 0 : value.length;
        }
        Map<String, Double> after = metrics(store);
        assertEquals(written, after.get("bytes-written-total"));
        assertEquals(read, after.get("bytes-read-total"));
        for (String name : List.of("bytes-written-rate", "bytes-read-rate", "memtable-bytes-flushed-rate",
                "memtable-bytes-flushed-total", "bytes-read-compaction-rate", "bytes-written-compaction-rate",
                "total-sst-files-size", "live-sst-files-size", "size-all-mem-tables", "cur-size-all-mem-tables",
                "estimate-table-readers-mem", "estimate-num-keys", "block-cache-usage", "number-open-files")) {
            assertTrue(after.get(name) > 0, name + " did not move");
        }
        for (String name : List.of("memtable-flush-time", "compaction-time")) {
            double least = after.get(name + "-min");
            double average = after.get(name + "-avg");
            double most = after.get(name + "-max");
            assertTrue(0 < least && least <= average && average <= most, least + " " + average + " " + most);
        }
        // What was flushed is what was written, roughly, since each value is written once and no byte of it compresses.
        double flushed = after.get("memtable-bytes-flushed-total");
        assertTrue(flushed > 0.5 * written && flushed < 2 * written, flushed + " of " + written);
        assertEquals(0, after.get("background-errors"));
        assertEquals(0, after.get("number-file-errors-total"));

        assertEquals(0, metric(store, "iterators-usage"));
        try (KeyValueIterator<Bytes, byte[]> items = store.all()) {
            items.next();
            double first = metric(store, "iterators-usage");
            assertTrue(first >= 1024, first + " bytes are held");
            for (int i = 0; i < 2000; i++) {
                items.next();
            }
            double later = metric(store, "iterators-usage");
            assertTrue(later >= 65536 && later < 70_000, later + " bytes are held");
        }
        assertEquals(0, metric(store, "iterators-usage"));
        store.close();
    }

    @Test
    void whatIsReadAgainHitsTheCache() {
        KeyValueStore<Bytes, byte[]> store = open(SiltstoneStores.keyValueStore("store").get(), 16 << 20);
        Random random = new Random(1);
        for (int i = 0; i < 60_000; i++) {
            store.put(key(i), value(random));
        }
        store.commit(Map.of(CHANGELOG, 1L));
        assertTrue(metric(store, "total-sst-files-size") > 1 << 20, "there are no tables to read");
        assertEquals(0, metric(store, "block-cache-data-hit-ratio"));
        for (int i = 0; i < 50_000; i++) {
            store.get(key(i % 1000));
        }
        double ratio = metric(store, "block-cache-data-hit-ratio");
        assertTrue(ratio > 0.5 && ratio < 1, ratio + " of all lookups hit");
        store.close();
    }

    @Test
    void failuresAreCounted() throws Exception {
        KeyValueStore<Bytes, byte[]> store = open(SiltstoneStores.keyValueStore("store").get(), 1 << 20);
        Random random = new Random(1);
        for (int i = 0; i < 20_000; i++) {
            store.put(key(i), value(random));
        }
        store.commit(Map.of(CHANGELOG, 1L));
        // All tables become nothing but zeros.
        try (Stream<Path> all = Files.list(directory.resolve("0_0").resolve(TaskStore.DIRECTORY))) {
            for (Path table : all.filter(file -> file.toString().endsWith(".table")).toList()) {
                Files.write(table, new byte[(int) Files.size(table)], StandardOpenOption.WRITE);
            }
        }
        int failed = 0;
        for (int i = 0; i < 20_000; i += 100) {
            try {
                store.get(key(i));
            } catch (ProcessorStateException e) {
                failed++;
            }
        }
        assertTrue(failed > 0, "nothing fails");
        assertEquals(failed, metric(store, "number-file-errors-total"));
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        for (int i = 0; metric(store, "background-errors") == 0; i++) {
            if (i < 20_000) {
                store.put(key(i), value(random));
            } else {
                Thread.sleep(100);
            }
            assertTrue(System.nanoTime() < end, "no compaction fails");
        }
        store.close();
    }

    /** Totals do not fall where a segment goes, whenever somebody asks, and nothing seems to run in it for ever. */
    @Test
    void whatWasDoneForADroppedSegmentStays() throws Exception {
        SiltstoneWindowStore store = (SiltstoneWindowStore) open((WindowStore<Bytes, byte[]>) SiltstoneStores
                .windowStore("windows", Duration.ofMinutes(2), Duration.ofSeconds(1), false).get(), 1 << 20);
        Metric flushed = context.metrics().metrics().values().stream()
                .filter(metric -> metric.metricName().name().equals("memtable-bytes-flushed-total")).findFirst().orElseThrow();
        AtomicBoolean isOver = new AtomicBoolean();
        FutureTask<Double> asker = new FutureTask<>(() -> {
            double last = 0;
            while (!isOver.get()) {
                double now = ((Number) flushed.metricValue()).doubleValue();
                assertTrue(now >= last, now + " after " + last);
                last = now;
            }
            return last;
        });
        new Thread(asker).start();
        Random random = new Random(1);
        for (int i = 0; i < 40_000; i++) {
            store.put(key(i), value(random), i * 60L);
        }
        isOver.set(true);
        double last = asker.get(60, TimeUnit.SECONDS);
        assertTrue(store.segmentCount() < 5, "no segment was dropped");
        // Segments that are there hold less than all that was flushed.
        assertTrue(last > 1.5 * metric(store, "total-sst-files-size"), last + " bytes were flushed");
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (metric(store, "num-running-flushes") + metric(store, "num-running-compactions") > 0) {
            assertTrue(System.nanoTime() < end, "jobs of segments that are gone still run");
        }
        store.close();
    }
}
