package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Applications that come back to their state with another retention period. */
class RetentionChangeTest {
    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final Bytes KEY = Bytes.wrap("key".getBytes(StandardCharsets.UTF_8));

    @TempDir
    Path directory;

    private InternalMockProcessorContext<?, ?> context() {
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.ByteArray(), Serdes.ByteArray());
        config.put(SiltstoneConfig.MEMORY_BYTES, 64 << 20);
        return new InternalMockProcessorContext<>(directory.resolve("0_0").toFile(), Serdes.ByteArray(),
                Serdes.ByteArray(), new StreamsConfig(config));
    }

    private SiltstoneWindowStore windows(Duration retention) {
        WindowStore<Bytes, byte[]> store = SiltstoneStores.windowStore("windows", retention, WINDOW, false).get();
        store.init(context(), store);
        return (SiltstoneWindowStore) store;
    }

    private static byte[] value(long number) {
        return Long.toString(number).getBytes(StandardCharsets.UTF_8);
    }

    /** What was within every retention period since it was written is there, and what is past the last one is not. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void whatIsWithinItStaysAndWhatIsPastItGoes(long seed) {
        Random random = new Random(seed);
        Duration[] periods = {Duration.ofMinutes(1), Duration.ofMinutes(4), Duration.ofMinutes(7), Duration.ofHours(1),
            Duration.ofHours(30)};
        Map<Long, byte[]> alive = new TreeMap<>();
        Map<Long, byte[]> written = new TreeMap<>();
        long now = 1_700_000_000_000L;
        for (int round = 0; round < 25; round++) {
            long retentionMs = periods[random.nextInt(periods.length)].toMillis();
            SiltstoneWindowStore store = windows(Duration.ofMillis(retentionMs));
            for (int i = 0; i < 60; i++) {
                now += random.nextInt(random.nextInt(8) == 0 ? 3_600_000 : 30_000);
                long time = now - (random.nextInt(4) == 0 ? random.nextInt(3_600_000) : 0);
                store.put(KEY, value(i), time);
                written.put(time, value(i));
                if (time > now - retentionMs) {
                    alive.put(time, value(i));
                }
                long first = now - retentionMs;
                alive.keySet().removeIf(past -> past <= first);
            }
            long latest = store.streamTime();
            for (Map.Entry<Long, byte[]> item : alive.entrySet()) {
                assertArrayEquals(item.getValue(), store.fetch(KEY, item.getKey()), "at " + item.getKey());
            }
            written.keySet().stream().filter(past -> past <= latest - retentionMs)
                    .forEach(past -> assertNull(store.fetch(KEY, past)));
            long found = 0;
            long last = Long.MIN_VALUE;
            try (KeyValueIterator<Windowed<Bytes>, byte[]> all = store.fetch(KEY, KEY, 0, Long.MAX_VALUE)) {
                while (all.hasNext()) {
                    long start = all.next().key.window().start();
                    assertTrue(start > last && written.containsKey(start));
                    last = start;
                    found += alive.containsKey(start) ? 1 : 0;
                }
            }
            assertEquals(alive.size(), found);
            store.close();
        }
        // All that is old goes as a whole, whatever it was divided by.
        SiltstoneWindowStore store = windows(Duration.ofMinutes(4));
        store.put(KEY, value(0), now + Duration.ofDays(9).toMillis());
        assertEquals(1, store.segmentCount());
        store.close();
    }

    @Test
    void sessionsStayToo() {
        for (int round = 0; round < 6; round++) {
            SessionStore<Bytes, byte[]> store = SiltstoneStores
                    .sessionStore("sessions", Duration.ofMinutes(round % 2 == 0 ? 4 : 600)).get();
            store.init(context(), store);
            long base = round * 60_000L;
            store.put(new Windowed<>(KEY, new SessionWindow(base, base + 30_000)), value(round));
            for (int earlier = Math.max(0, round - 3); earlier <= round; earlier++) {
                long start = earlier * 60_000L;
                assertArrayEquals(value(earlier), store.fetchSession(KEY, start, start + 30_000));
            }
            store.close();
        }
    }

    /** Segments never overlap and have no gaps between them, over the whole of time. */
    @Test
    void timeIsDividedWithoutGaps() {
        Random random = new Random(1);
        for (int tries = 0; tries < 200; tries++) {
            Segmentation segmentation = Segmentation.of(1 + random.nextInt(1000));
            long from = random.nextInt(5000);
            for (int change = 0; change < 4; change++) {
                long last = segmentation.start(from + random.nextInt(5000));
                long[] before = new long[Math.max(0, (int) (last - from) + 1)];
                for (int i = 0; i < before.length; i++) {
                    before[i] = segmentation.start(from + i);
                }
                segmentation = segmentation.changedTo(1 + random.nextInt(1000), segmentation.start(from), last);
                for (int i = 0; i < before.length; i++) {
                    assertEquals(before[i], segmentation.start(from + i));
                }
            }
            assertEquals(segmentation, Segmentation.decode(segmentation.encode()));
            long start = segmentation.start(from - 3000);
            for (long time = from - 3000; time < from + 12_000; time++) {
                long next = segmentation.start(time);
                assertTrue(next == start || next == time, time + " of " + segmentation);
                start = next;
            }
        }
        assertEquals(Long.MIN_VALUE, Segmentation.of(60_000).start(Long.MIN_VALUE));
        assertTrue(Segmentation.of(60_000).start(Long.MAX_VALUE) > Long.MAX_VALUE - 60_000);
    }
}
