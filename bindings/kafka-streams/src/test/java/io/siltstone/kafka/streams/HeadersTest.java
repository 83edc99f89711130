package io.siltstone.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStoreWithHeaders;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.TimestampedWindowStoreWithHeaders;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.StreamsTestUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Single stores whose values have headers, of each kind that Kafka has: headers are there after the store was closed. */
class HeadersTest {
    private static final Headers HEADERS = new RecordHeaders().add("trace", new byte[] {1, 2, 3});

    @TempDir
    Path directory;

    private <S extends StateStore> S open(StoreBuilder<S> builder) {
        S store = builder.withLoggingDisabled().build();
        Properties config = StreamsTestUtils.getStreamsConfig(Serdes.String(), Serdes.Long());
        store.init(new InternalMockProcessorContext<>(directory.resolve("0_0").toFile(), Serdes.String(),
                Serdes.Long(), new StreamsConfig(config)), store);
        return store;
    }

    @Test
    void aKeyValueStoreKeepsThem() {
        StoreBuilder<TimestampedKeyValueStoreWithHeaders<String, Long>> builder =
                Stores.timestampedKeyValueStoreWithHeadersBuilder(SiltstoneStores.keyValueStoreWithHeaders("items"),
                        Serdes.String(), Serdes.Long());
        TimestampedKeyValueStoreWithHeaders<String, Long> store = open(builder);
        store.put("a", ValueTimestampHeaders.make(7L, 100, HEADERS));
        store.close();
        store = open(builder);
        assertEquals(ValueTimestampHeaders.make(7L, 100, HEADERS), store.get("a"));
        store.close();
    }

    @Test
    void aWindowStoreKeepsThem() {
        WindowBytesStoreSupplier supplier = SiltstoneStores.windowStoreWithHeaders("windows", Duration.ofHours(1),
                Duration.ofMinutes(1), false);
        assertInstanceOf(HeadersBytesStoreSupplier.class, supplier);
        StoreBuilder<TimestampedWindowStoreWithHeaders<String, Long>> builder =
                Stores.timestampedWindowStoreWithHeadersBuilder(supplier, Serdes.String(), Serdes.Long());
        TimestampedWindowStoreWithHeaders<String, Long> store = open(builder);
        store.put("a", ValueTimestampHeaders.make(7L, 100, HEADERS), 60_000);
        store.close();
        store = open(builder);
        assertEquals(ValueTimestampHeaders.make(7L, 100, HEADERS), store.fetch("a", 60_000));
        try (KeyValueIterator<Windowed<String>, ValueTimestampHeaders<Long>> all = store.all()) {
            assertEquals(HEADERS, all.next().value.headers());
            assertFalse(all.hasNext());
        }
        store.close();
    }

    @Test
    void aSessionStoreKeepsThem() {
        SessionBytesStoreSupplier supplier =
                SiltstoneStores.sessionStoreWithHeaders("sessions", Duration.ofHours(1));
        assertInstanceOf(HeadersBytesStoreSupplier.class, supplier);
        StoreBuilder<SessionStoreWithHeaders<String, Long>> builder =
                Stores.sessionStoreWithHeadersBuilder(supplier, Serdes.String(), Serdes.Long());
        SessionStoreWithHeaders<String, Long> store = open(builder);
        store.put(new Windowed<>("a", new SessionWindow(10, 20)), AggregationWithHeaders.make(7L, HEADERS));
        store.close();
        store = open(builder);
        assertEquals(AggregationWithHeaders.make(7L, HEADERS), store.fetchSession("a", 10, 20));
        try (KeyValueIterator<Windowed<String>, AggregationWithHeaders<Long>> found = store.fetch("a")) {
            assertTrue(found.hasNext());
            assertEquals(HEADERS, found.next().value.headers());
        }
        store.close();
    }
}
