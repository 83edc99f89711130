package io.siltstone.kafka.streams;

import java.util.Map;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Gives every store that the DSL makes to Siltstone:
 *
 * <pre>
 * dsl.store.suppliers.class=io.siltstone.kafka.streams.SiltstoneDslStoreSuppliers
 * </pre>
 */
public final class SiltstoneDslStoreSuppliers implements DslStoreSuppliers {
    /** Made by Kafka, by the class's name. */
    public SiltstoneDslStoreSuppliers() {}

    /** Checks the keys of {@link SiltstoneConfig}, so that a wrong one is found before the application starts. */
    @Override
    public void configure(Map<String, ?> configs) {
        SiltstoneConfig.Values.of(configs);
    }

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        return switch (params.dslStoreFormat()) {
            case HEADERS -> SiltstoneStores.keyValueStoreWithHeaders(params.name());
            case TIMESTAMPED -> SiltstoneStores.timestampedKeyValueStore(params.name());
            case PLAIN -> SiltstoneStores.keyValueStore(params.name());
        };
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        long retentionMs = params.retentionPeriod().toMillis();
        long windowMs = params.windowSize().toMillis();
        boolean isByTime = isEmittedOnClose(params.emitStrategy());
        DslStoreFormat format =
                params.dslStoreFormat() == null ? DslStoreFormat.TIMESTAMPED : params.dslStoreFormat();
        if (format == DslStoreFormat.HEADERS) {
            return new SiltstoneWindowSupplier.WithHeaders(params.name(), retentionMs, windowMs,
                    params.retainDuplicates(), isByTime);
        }
        return new SiltstoneWindowSupplier(params.name(), format, retentionMs, windowMs, params.retainDuplicates(),
                isByTime);
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        long retentionMs = params.retentionPeriod().toMillis();
        boolean isByTime = isEmittedOnClose(params.emitStrategy());
        if (params.storeFormat() == DslStoreFormat.HEADERS) {
            return new SiltstoneSessionSupplier.WithHeaders(params.name(), retentionMs, isByTime);
        }
        return new SiltstoneSessionSupplier(params.name(), retentionMs, isByTime);
    }

    private static boolean isEmittedOnClose(EmitStrategy strategy) {
        return strategy.type() == EmitStrategy.StrategyType.ON_WINDOW_CLOSE;
    }
}
