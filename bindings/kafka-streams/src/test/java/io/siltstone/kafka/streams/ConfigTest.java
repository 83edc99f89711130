package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.LogCaptureAppender;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.logging.log4j.Level;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What may be said in an application's configuration, and what is said to those who say something else. */
class ConfigTest {
    @TempDir
    Path directory;

    @ParameterizedTest
    @CsvSource({"siltstone.memory.bytes,-1", "siltstone.memory.bytes,0", "siltstone.memory.bytes,1000",
        "siltstone.memory.bytes,140737488355328", "siltstone.memory.bytes,9223372036854775807",
        "siltstone.memory.bytes,256MB", "siltstone.memory.bytes,''", "siltstone.memory.bytes,1e9",
        "siltstone.memory.bytes,99999999999999999999", "siltstone.threads,-1", "siltstone.threads,0",
        "siltstone.threads,65", "siltstone.threads,9999999999", "siltstone.threads,two",
        "siltstone.max.open.files,-1", "siltstone.max.open.files,7", "siltstone.max.open.files,9999999999"})
    void aValueThatCannotBeIsNamedWithItsKey(String key, String value) {
        String message = assertThrows(ConfigException.class, () -> SiltstoneConfig.Values.of(Map.of(key, value)))
                .getMessage();
        assertTrue(message.contains(key) && message.contains(value), message);
        // And before any store is opened, wherever the topology has the suppliers from.
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, SiltstoneDslStoreSuppliers.class);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put(key, value);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("in", Consumed.with(Serdes.String(), Serdes.String())).groupByKey().count();
        assertNamed(key, builder, config);
        StreamsBuilder given = new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)));
        given.stream("in", Consumed.with(Serdes.String(), Serdes.String())).groupByKey().count();
        assertNamed(key, given, config);
        assertEquals(0, SiltstoneStores.budgetBytes());
    }

    private static void assertNamed(String key, StreamsBuilder builder, Properties config) {
        String message = assertThrows(ConfigException.class,
                () -> new TopologyTestDriver(builder.build(config), config).close()).getMessage();
        assertTrue(message.contains(key), message);
    }

    @Test
    void aStoreThatCannotBeIsRefusedAtOnce() {
        Duration hour = Duration.ofHours(1);
        assertThrows(NullPointerException.class, () -> SiltstoneStores.keyValueStore(null));
        assertThrows(NullPointerException.class, () -> SiltstoneStores.windowStore(null, hour, hour, false));
        assertThrows(NullPointerException.class, () -> SiltstoneStores.sessionStore(null, hour));
        assertThrows(IllegalArgumentException.class, () -> SiltstoneStores.windowStore("w", null, hour, false));
        assertThrows(IllegalArgumentException.class,
                () -> SiltstoneStores.windowStore("w", Duration.ofSeconds(Long.MAX_VALUE), hour, false));
        assertThrows(IllegalArgumentException.class,
                () -> SiltstoneStores.timestampedWindowStore("w", hour, hour.plusMillis(1), false));
        assertThrows(IllegalArgumentException.class, () -> SiltstoneStores.sessionStore("s", hour.negated()));
    }

    /** The line of the configuration is enough for all stores of the DSL, however the topology is built. */
    @Test
    void theLineIsEnough() throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put("dsl.store.suppliers.class", "io.siltstone.kafka.streams.SiltstoneDslStoreSuppliers");
        for (boolean isGivenToTheBuilder : new boolean[] {false, true}) {
            StreamsBuilder builder = isGivenToTheBuilder
                    ? new StreamsBuilder(new TopologyConfig(new StreamsConfig(config))) : new StreamsBuilder();
            KStream<String, String> left = builder.stream("left");
            KStream<String, String> right = builder.stream("right");
            Duration second = Duration.ofSeconds(1);
            left.groupByKey().count(Materialized.as("counts"));
            left.groupByKey().count(Materialized.as(SiltstoneStores.keyValueStore("named")));
            left.groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(second)).count();
            left.groupByKey().windowedBy(SessionWindows.ofInactivityGapWithNoGrace(second)).count();
            left.toTable().join(right.toTable(), value -> value, (a, b) -> a + b);
            left.outerJoin(right, (a, b) -> a + b, JoinWindows.ofTimeDifferenceWithNoGrace(second));
            try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config)) {
                assertTrue(driver.getAllStateStores().size() > 6, driver.getAllStateStores().keySet().toString());
                assertTrue(SiltstoneStores.budgetBytes() > 0);
                try (Stream<Path> files = Files.walk(directory)) {
                    assertEquals(List.of(), files.filter(file -> file.endsWith("IDENTITY")).toList());
                }
            }
        }
    }

    @Test
    void nothingIsNoNumber() {
        Map<String, Object> configs = new HashMap<>();
        configs.put(SiltstoneConfig.MEMORY_BYTES, null);
        assertTrue(assertThrows(ConfigException.class, () -> SiltstoneConfig.Values.of(configs)).getMessage()
                .contains(SiltstoneConfig.MEMORY_BYTES));
    }

    @Test
    void numbersAndTheirTextAreTheSame() {
        SiltstoneConfig.Values expected = new SiltstoneConfig.Values(64 << 20, 3, 99);
        assertEquals(expected, SiltstoneConfig.Values.of(Map.of(SiltstoneConfig.MEMORY_BYTES, 64 << 20,
                SiltstoneConfig.THREADS, 3, SiltstoneConfig.MAX_OPEN_FILES, 99)));
        assertEquals(expected, SiltstoneConfig.Values.of(Map.of(SiltstoneConfig.MEMORY_BYTES, " 67108864 ",
                SiltstoneConfig.THREADS, "3", SiltstoneConfig.MAX_OPEN_FILES, "99", "another.key", "value")));
        assertEquals(new SiltstoneConfig.Values(256 << 20, 2, 512), SiltstoneConfig.Values.of(Map.of()));
    }

    /** Whatever kind of number a program, a property file or a framework makes of it. */
    @ParameterizedTest
    @ValueSource(strings = {SiltstoneConfig.MEMORY_BYTES, SiltstoneConfig.THREADS, SiltstoneConfig.MAX_OPEN_FILES})
    void anyKindOfNumberIsTakenThatFits(String key) {
        boolean isMemory = key.equals(SiltstoneConfig.MEMORY_BYTES);
        int fits = isMemory ? 1 << 20 : 9;
        List<Object> same = new ArrayList<>(List.of(fits, (long) fits, "" + fits, BigInteger.valueOf(fits),
                new BigDecimal(fits), new AtomicInteger(fits), new AtomicLong(fits)));
        if (!isMemory) {
            same.addAll(List.of((short) fits, (byte) fits));
        }
        for (Object value : same) {
            SiltstoneConfig.Values values = SiltstoneConfig.Values.of(Map.of(key, value));
            long read = isMemory ? values.memoryBytes() : key.equals(SiltstoneConfig.THREADS) ? values.threads()
                    : values.maxOpenFiles();
            assertEquals(fits, read, value.getClass().toString());
        }
        List<Object> refused = List.of(Long.MAX_VALUE, Long.MIN_VALUE, -1L, 0L, (1L << 46) + 1, (short) -1,
                BigInteger.ONE.shiftLeft(64), BigInteger.ONE.shiftLeft(64).add(BigInteger.valueOf(fits)), fits + 0.5,
                (double) fits, Double.NaN, true, List.of(fits));
        for (Object value : refused) {
            String message = assertThrows(ConfigException.class,
                    () -> SiltstoneConfig.Values.of(Map.of(key, value)), () -> value + "").getMessage();
            assertTrue(message.contains(key) && message.contains(value + ""), message);
        }
    }

    @Test
    void aMisspeltKeyIsNamedWithTheNearest() {
        try (LogCaptureAppender log = LogCaptureAppender.createAndRegister(SiltstoneConfig.class)) {
            Map<String, Object> configs = Map.of("siltstone.memory.byte", 1 << 20, "siltstone.max.openfiles", 9,
                    "siltstone.theads", 1, SiltstoneConfig.MEMORY_BYTES, 1 << 20, "another.theads", 1,
                    "siltstone.no.such.thing", 1);
            // Each application asks for each of its tasks; one warning is enough.
            SiltstoneConfig.Values.of(configs);
            SiltstoneConfig.Values.of(configs);
            assertEquals(4, log.getMessages("WARN").size(), log.getMessages("WARN").toString());
            Map<String, String> nearest = Map.of("siltstone.memory.byte", SiltstoneConfig.MEMORY_BYTES,
                    "siltstone.max.openfiles", SiltstoneConfig.MAX_OPEN_FILES, "siltstone.theads",
                    SiltstoneConfig.THREADS);
            nearest.forEach((key, known) -> assertTrue(log.getMessages("WARN").stream().anyMatch(line ->
                    line.contains(" " + key + ",") && line.contains("nearest one is " + known + ";")), key));
            // What is like none of them is not taken for one.
            assertTrue(log.getMessages("WARN").stream().anyMatch(line -> line.contains(" siltstone.no.such.thing,")
                    && !line.contains("nearest") && line.contains(SiltstoneConfig.THREADS)));
        }
    }

    @Test
    void whatTheStoresShareIsLoggedOnce() {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, SiltstoneDslStoreSuppliers.class);
        config.put(SiltstoneConfig.MEMORY_BYTES, 48 << 20);
        StreamsBuilder builder = new StreamsBuilder();
        for (String topic : List.of("one", "two")) {
            builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String())).groupByKey().count();
        }
        try (LogCaptureAppender log = LogCaptureAppender.createAndRegister(TaskStore.class)) {
            log.setClassLogger(TaskStore.class, Level.INFO);
            new TopologyTestDriver(builder.build(config), config).close();
            List<String> lines = log.getMessages("INFO");
            assertEquals(1, lines.size(), lines.toString());
            assertTrue(lines.get(0).contains("share 48 MiB of memory (siltstone.memory.bytes), 2 threads"),
                    lines.toString());
        }
    }
}
