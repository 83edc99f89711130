package org.apache.kafka.streams.state.internals;

import io.siltstone.kafka.streams.SiltstoneStores;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Kafka's suite for window stores, whole. */
class SiltstoneWindowStoreSuiteTest extends AbstractWindowBytesStoreTest {
    @Override
    <K, V> WindowStore<K, V> buildWindowStore(long retentionPeriod, long windowSize, boolean retainDuplicates,
            Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.windowStoreBuilder(SiltstoneStores.windowStore("window-store", Duration.ofMillis(retentionPeriod),
                Duration.ofMillis(windowSize), retainDuplicates), keySerde, valueSerde).build();
    }
}
