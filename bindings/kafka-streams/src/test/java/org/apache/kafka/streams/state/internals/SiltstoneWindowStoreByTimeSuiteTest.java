package org.apache.kafka.streams.state.internals;

import io.siltstone.kafka.streams.SiltstoneDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** The same suite for window stores that the DSL makes where windows are emitted when they close. */
class SiltstoneWindowStoreByTimeSuiteTest extends SiltstoneWindowStoreSuiteTest {
    @Override
    <K, V> WindowStore<K, V> buildWindowStore(long retentionPeriod, long windowSize, boolean retainDuplicates,
            Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.windowStoreBuilder(new SiltstoneDslStoreSuppliers().windowStore(new DslWindowParams(
                "window-store", Duration.ofMillis(retentionPeriod), Duration.ofMillis(windowSize), retainDuplicates,
                EmitStrategy.onWindowClose(), false, DslStoreFormat.PLAIN)), keySerde, valueSerde).build();
    }
}
