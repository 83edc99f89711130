package org.apache.kafka.streams.state.internals;

import io.siltstone.kafka.streams.SiltstoneDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/** The same suite for session stores that the DSL makes where sessions are emitted when they close. */
class SiltstoneSessionStoreByTimeSuiteTest extends SiltstoneSessionStoreSuiteTest {
    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retentionPeriod, Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.sessionStoreBuilder(new SiltstoneDslStoreSuppliers().sessionStore(new DslSessionParams(
                "session-store", Duration.ofMillis(retentionPeriod), EmitStrategy.onWindowClose(),
                DslStoreFormat.PLAIN)), keySerde, valueSerde).build();
    }
}
