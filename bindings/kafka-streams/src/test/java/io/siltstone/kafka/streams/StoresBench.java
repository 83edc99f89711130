package io.siltstone.kafka.streams;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.WriteBufferManager;

/**
 * Many key-value stores in one process, 12 in each task: restored, then read and written at random. Arguments: {@code
 * siltstone}, {@code rocksdb} (Kafka's defaults) or {@code rocksdb-bounded} (cache and write buffers shared, as Kafka's
 * documentation shows); then stores, records of each, and operations.
 */
public final class StoresBench {
    private static final long BUDGET_BYTES = 320L << 20;
    private static final int STORES_OF_A_TASK = 12;
    private static final int VALUE_BYTES = 100;

    private StoresBench() {}

    /** One cache for all stores, which write buffers are counted in. */
    public static final class Bounded implements RocksDBConfigSetter {
        private static final Cache CACHE = new LRUCache(BUDGET_BYTES, -1, false, 0.1);
        private static final WriteBufferManager BUFFERS = new WriteBufferManager(BUDGET_BYTES / 2, CACHE);

        @Override
        public void setConfig(String store, Options options, Map<String, Object> configs) {
            BlockBasedTableConfig tables = (BlockBasedTableConfig) options.tableFormatConfig();
            tables.setBlockCache(CACHE);
            tables.setCacheIndexAndFilterBlocks(true);
            tables.setCacheIndexAndFilterBlocksWithHighPriority(true);
            tables.setPinTopLevelIndexAndFilter(true);
            options.setWriteBufferManager(BUFFERS);
            options.setTableFormatConfig(tables);
        }

        @Override
        public void close(String store, Options options) {}
    }

    public static void main(String[] arguments) throws Exception {
        String engine = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        int operations = Integer.parseInt(arguments[3]);
        Path directory = Files.createTempDirectory("siltstone-bench");
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, BUDGET_BYTES);
        if (engine.equals("rocksdb-bounded")) {
            config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, Bounded.class);
        }
        long memoryBefore = resident();
        List<KeyValueStore<Bytes, byte[]>> stores = new ArrayList<>();
        List<InternalMockProcessorContext<?, ?>> contexts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            File task = directory.resolve("0_" + i / STORES_OF_A_TASK).toFile();
            InternalMockProcessorContext<?, ?> context = new InternalMockProcessorContext<>(task, Serdes.ByteArray(),
                    Serdes.ByteArray(), new StreamsConfig(config));
            KeyValueStore<Bytes, byte[]> store = (engine.equals("siltstone")
                    ? SiltstoneStores.keyValueStore("store" + i) : Stores.persistentKeyValueStore("store" + i)).get();
            store.init(context, store);
            stores.add(store);
            contexts.add(context);
        }
        try {
            measure(engine, stores, contexts, records, operations, memoryBefore);
        } finally {
            stores.forEach(KeyValueStore::close);
            try (Stream<Path> files = Files.walk(directory)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }

    private static void measure(String engine, List<KeyValueStore<Bytes, byte[]>> stores,
            List<InternalMockProcessorContext<?, ?>> contexts, int records, int operations, long memoryBefore)
            throws Exception {
        Random random = new Random(1);
        long written = writtenBytes();
        long begun = System.nanoTime();
        for (int from = 0; from < records; from += 1000) {
            for (int i = 0; i < stores.size(); i++) {
                List<KeyValue<byte[], byte[]>> batch = new ArrayList<>();
                for (int record = from; record < Math.min(records, from + 1000); record++) {
                    batch.add(new KeyValue<>(key(record), value(random)));
                }
                contexts.get(i).restore("store" + i, batch);
            }
        }
        commit(stores, 1);
        double restoring = (System.nanoTime() - begun) / 1e9;
        long restored = (long) records * stores.size();
        double restoreAmplification =
                (writtenBytes() - written) / (double) (restored * (Long.BYTES + VALUE_BYTES));
        long most = resident();
        written = writtenBytes();
        begun = System.nanoTime();
        long found = 0;
        for (int i = 0; i < operations; i++) {
            KeyValueStore<Bytes, byte[]> store = stores.get(random.nextInt(stores.size()));
            Bytes key = Bytes.wrap(key(random.nextInt(records)));
            found += store.get(key) == null ? 0 : 1;
            store.put(key, value(random));
            if (i % 50_000 == 49_999) {
                commit(stores, i);
                most = Math.max(most, resident());
            }
        }
        commit(stores, operations);
        double updating = (System.nanoTime() - begun) / 1e9;
        double amplification =
                (writtenBytes() - written) / (double) ((long) operations * (Long.BYTES + VALUE_BYTES));
        most = Math.max(most, resident());
        long scanBegun = System.nanoTime();
        long scanned = 0;
        for (KeyValueStore<Bytes, byte[]> store : stores) {
            try (KeyValueIterator<Bytes, byte[]> items = store.all()) {
                for (; items.hasNext(); items.next()) {
                    scanned++;
                }
            }
        }
        double scanning = (System.nanoTime() - scanBegun) / 1e9;
        if (found != operations || scanned != restored) {
            throw new IllegalStateException(found + " of " + operations + " were found, and " + scanned + " of "
                    + restored + " scanned");
        }
        System.out.printf("%-16s stores %d  memory %d MiB  process %d MiB, at its peak %d MiB  restored %.1f s (%.0f k/s,"
                + " written %.2f times)  read and written %.0f k/s  written %.2f times  all() %.0f k/s%n", engine,
                stores.size(), (most - memoryBefore) >> 10, most >> 10, peak() >> 10, restoring,
                restored / restoring / 1e3, restoreAmplification, operations / updating / 1e3, amplification,
                scanned / scanning / 1e3);
    }

    private static void commit(List<KeyValueStore<Bytes, byte[]>> stores, long offset) {
        stores.forEach(store -> store.commit(Map.of(new TopicPartition("changelog", 0), offset)));
    }

    private static byte[] key(int number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(number * 0x9E3779B97F4A7C15L).array();
    }

    private static byte[] value(Random random) {
        byte[] value = new byte[VALUE_BYTES];
        random.nextBytes(value);
        return value;
    }

    private static long resident() throws Exception {
        return number(Path.of("/proc/self/status"), "VmRSS:");
    }

    /** The most that was resident at any time, before the stores as well. */
    private static long peak() throws Exception {
        return number(Path.of("/proc/self/status"), "VmHWM:");
    }

    private static long writtenBytes() throws Exception {
        return number(Path.of("/proc/self/io"), "wchar:");
    }

    private static long number(Path file, String line) throws Exception {
        return Files.readAllLines(file).stream().filter(text -> text.startsWith(line))
                .mapToLong(text -> Long.parseLong(text.replaceAll("\\D", ""))).findFirst().orElseThrow();
    }
}
