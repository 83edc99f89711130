package org.apache.kafka.streams.state.internals;

import io.siltstone.kafka.streams.SiltstoneStores;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka's suite for key-value stores under its caching layer, which merges by key order. */
class SiltstoneCachedKeyValueStoreSuiteTest extends AbstractKeyValueStoreTest {
    @Override
    @SuppressWarnings("unchecked")
    protected <K, V> KeyValueStore<K, V> createKeyValueStore(StateStoreContext context) {
        KeyValueStore<K, V> store = Stores.keyValueStoreBuilder(SiltstoneStores.keyValueStore("my-store"),
                (Serde<K>) context.keySerde(), (Serde<V>) context.valueSerde()).withCachingEnabled().build();
        store.init(context, store);
        return store;
    }
}
