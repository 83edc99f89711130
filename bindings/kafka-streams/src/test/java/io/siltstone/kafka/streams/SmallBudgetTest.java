package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The smallest budget, which many stores share whose state is far larger: slower, and right. */
class SmallBudgetTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("changelog", 0);

    @TempDir
    Path directory;

    private InternalMockProcessorContext<?, ?> context(int task, long budget) {
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, budget);
        return new InternalMockProcessorContext<>(directory.resolve("0_" + task).toFile(), Serdes.ByteArray(),
                Serdes.ByteArray(), new StreamsConfig(config));
    }

    private static Bytes key(int number) {
        return Bytes.wrap(ByteBuffer.allocate(8).putLong(number * 0x9E3779B97F4A7C15L).array());
    }

    private static byte[] value(int store, int number, int round) {
        byte[] value = new byte[100];
        new Random(31L * (31L * store + number) + round).nextBytes(value);
        return value;
    }

    @ParameterizedTest
    @CsvSource({"6,4,3000", "1,1,60000", "12,12,400"})
    void stateThatIsFarLargerIsKept(int tasks, int storesOfEach, int keys) {
        long budget = 1 << 20;
        List<KeyValueStore<Bytes, byte[]>> stores = new ArrayList<>();
        List<WindowStore<Bytes, byte[]>> windows = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            InternalMockProcessorContext<?, ?> context = context(task, budget);
            for (int i = 0; i < storesOfEach; i++) {
                KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store" + i).get();
                store.init(context, store);
                stores.add(store);
            }
            WindowStore<Bytes, byte[]> store =
                    SiltstoneStores.windowStore("windows", Duration.ofHours(1), Duration.ofMinutes(1), false).get();
            store.init(context, store);
            windows.add(store);
        }
        assertEquals(budget, SiltstoneStores.budgetBytes());
        long most = 0;
        for (int round = 0; round < 2; round++) {
            for (int number = 0; number < keys; number++) {
                for (int store = 0; store < stores.size(); store++) {
                    stores.get(store).put(key(number), number % 5 == round ? null : value(store, number, round));
                }
                windows.get(number % tasks).put(key(number), value(0, number, round), number * 100L);
                if (number % 500 == 0) {
                    most = Math.max(most, SiltstoneStores.memoryBytes());
                    for (KeyValueStore<Bytes, byte[]> store : stores) {
                        store.commit(Map.of(CHANGELOG, (long) number));
                    }
                }
            }
        }
        // A buffer more for a moment, never what the stores hold.
        assertTrue(most < 3 * budget, most + " bytes were taken");
        assertTrue(5 * budget < 108L * keys * stores.size(), "they hold too little to tell anything");
        for (int store = 0; store < stores.size(); store++) {
            KeyValueStore<Bytes, byte[]> items = stores.get(store);
            for (int number = 0; number < keys; number += 7) {
                assertArrayEquals(number % 5 == 1 ? null : value(store, number, 1), items.get(key(number)));
            }
            int count = 0;
            try (KeyValueIterator<Bytes, byte[]> all = items.all()) {
                for (; all.hasNext(); all.next()) {
                    count++;
                }
            }
            assertEquals(keys - keys / 5, count);
        }
        for (int number = keys - 1; number > Math.max(0, keys - 1000); number -= 13) {
            assertArrayEquals(value(0, number, 1), windows.get(number % tasks).fetch(key(number), number * 100L));
        }
        stores.forEach(KeyValueStore::close);
        windows.forEach(WindowStore::close);
    }

    /**
     * What buffers outside of Java's heap take that somebody can still reach. Those of earlier tests go after a collection
     * found them, when their cleaner comes to it; so there are collections until several in a row change nothing.
     */
    private static long directBytes() throws InterruptedException {
        long bytes = -1;
        for (int round = 0, same = 0; round < 200 && same < 5; round++) {
            System.gc();
            Thread.sleep(20);
            long now = pooledBytes();
            same = now == bytes ? same + 1 : 0;
            bytes = now;
        }
        return bytes;
    }

    private static long pooledBytes() {
        return ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
                .filter(pool -> pool.getName().equals("direct")).mapToLong(BufferPoolMXBean::getTotalCapacity).sum();
    }

    /** What is handed over to the engine is packed outside of Java's heap: by task, and not by store. */
    @Test
    void storesOfATaskShareABuffer() throws InterruptedException {
        int tasks = 2;
        List<KeyValueStore<Bytes, byte[]>> stores = new ArrayList<>();
        long before = directBytes();
        for (int task = 0; task < tasks; task++) {
            InternalMockProcessorContext<?, ?> context = context(task, 8 << 20);
            for (int i = 0; i < 24; i++) {
                KeyValueStore<Bytes, byte[]> store = SiltstoneStores.keyValueStore("store" + i).get();
                store.init(context, store);
                stores.add(store);
            }
        }
        for (KeyValueStore<Bytes, byte[]> store : stores) {
            for (int number = 0; number < 2000; number++) {
                store.put(key(number), value(0, number, 0));
            }
            store.commit(Map.of(CHANGELOG, 1L));
        }
        long taken = directBytes() - before;
        assertTrue(taken > 0 && taken <= tasks << 20, taken + " bytes were taken");
        stores.forEach(KeyValueStore::close);
    }
}
