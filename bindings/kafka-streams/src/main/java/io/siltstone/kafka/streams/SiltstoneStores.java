package io.siltstone.kafka.streams;

import java.time.Duration;
import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.internals.ApiUtils;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** Suppliers of single stores, for {@code Stores.keyValueStoreBuilder} and its like, and for {@code Materialized.as}. */
public final class SiltstoneStores {
    private SiltstoneStores() {}

    private static long millis(Duration time, String name) {
        return ApiUtils.validateMillisecondDuration(time, ApiUtils.prepareMillisCheckFailMsgPrefix(time, name));
    }

    /** Supplies a key-value store. */
    public static KeyValueBytesStoreSupplier keyValueStore(String name) {
        return new KeyValueSupplier(name, DslStoreFormat.PLAIN);
    }

    /** Supplies a key-value store whose values have a timestamp. */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStore(String name) {
        return new KeyValueSupplier(name, DslStoreFormat.TIMESTAMPED);
    }

    /** Supplies a key-value store whose values have headers and a timestamp. */
    public static KeyValueBytesStoreSupplier keyValueStoreWithHeaders(String name) {
        return new KeyValueSupplierWithHeaders(name);
    }

    /** Supplies a window store. */
    public static WindowBytesStoreSupplier windowStore(String name, Duration retention, Duration window,
            boolean retainDuplicates) {
        return new SiltstoneWindowSupplier(name, DslStoreFormat.PLAIN, millis(retention, "retentionPeriod"),
                millis(window, "windowSize"), retainDuplicates, false);
    }

    /** Supplies a window store whose values have a timestamp. */
    public static WindowBytesStoreSupplier timestampedWindowStore(String name, Duration retention, Duration window,
            boolean retainDuplicates) {
        return new SiltstoneWindowSupplier(name, DslStoreFormat.TIMESTAMPED, millis(retention, "retentionPeriod"),
                millis(window, "windowSize"), retainDuplicates, false);
    }

    /** Supplies a window store whose values have headers and a timestamp. */
    public static WindowBytesStoreSupplier windowStoreWithHeaders(String name, Duration retention,
            Duration window, boolean retainDuplicates) {
        return new SiltstoneWindowSupplier.WithHeaders(name, millis(retention, "retentionPeriod"),
                millis(window, "windowSize"), retainDuplicates, false);
    }

    /** Supplies a session store. */
    public static SessionBytesStoreSupplier sessionStore(String name, Duration retention) {
        return new SiltstoneSessionSupplier(name, millis(retention, "retentionPeriod"), false);
    }

    /** Supplies a session store whose values have headers. */
    public static SessionBytesStoreSupplier sessionStoreWithHeaders(String name, Duration retention) {
        return new SiltstoneSessionSupplier.WithHeaders(name, millis(retention, "retentionPeriod"), false);
    }

    /** Returns the bytes that all Siltstone stores of this process hold. */
    public static long memoryBytes() {
        return TaskStore.memoryBytes();
    }

    /** Returns the bytes that they may hold, by {@link SiltstoneConfig#MEMORY_BYTES}; 0 where none is open. */
    public static long budgetBytes() {
        return TaskStore.budgetBytes();
    }

    private static class KeyValueSupplier implements KeyValueBytesStoreSupplier {
        private final String name;
        private final DslStoreFormat format;

        KeyValueSupplier(String name, DslStoreFormat format) {
            this.name = Objects.requireNonNull(name, "name cannot be null");
            this.format = format;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return switch (format) {
                case HEADERS -> new SiltstoneKeyValueStore.WithHeaders(name);
                case TIMESTAMPED -> new SiltstoneKeyValueStore.Timestamped(name);
                case PLAIN -> new SiltstoneKeyValueStore(name, "k");
            };
        }

        @Override
        public String metricsScope() {
            return SiltstoneKeyValueStore.SCOPE;
        }
    }

    private static final class KeyValueSupplierWithHeaders extends KeyValueSupplier
            implements HeadersBytesStoreSupplier {
        KeyValueSupplierWithHeaders(String name) {
            super(name, DslStoreFormat.HEADERS);
        }
    }
}
