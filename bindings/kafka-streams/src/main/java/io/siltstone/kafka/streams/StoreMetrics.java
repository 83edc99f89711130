package io.siltstone.kafka.streams;

import io.siltstone.Keyspace;
import io.siltstone.SiltstoneException;
import java.util.function.ToLongFunction;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ProcessorContextUtils;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * Metrics of a store under the names that Kafka gives RocksDB's, so that dashboards find them. They are read from the
 * engine when somebody asks. Kafka removes them with the store's others.
 */
final class StoreMetrics {
    private StoreMetrics() {}

    static void register(BaseStore store, StateStoreContext context) {
        StreamsMetricsImpl metrics = ProcessorContextUtils.metricsImpl(context);
        String task = context.taskId().toString();
        String scope = store instanceof SiltstoneWindowStore ? SiltstoneWindowStore.SCOPE
                : store instanceof SiltstoneSessionStore ? SiltstoneSessionStore.SCOPE : SiltstoneKeyValueStore.SCOPE;
        Names names = (name, description, figure) -> metrics.addStoreLevelMutableMetric(task, scope, store.name(), name,
                description, RecordingLevel.INFO, (config, now) -> sum(store, figure));
        names.add("estimate-num-keys", "Estimated number of total keys in the tables and write buffers",
                Keyspace.Figures::items);
        names.add("total-sst-files-size", "Total size of all table files in bytes", Keyspace.Figures::tableBytes);
        names.add("live-sst-files-size", "Total size of all table files of the latest version in bytes",
                Keyspace.Figures::tableBytes);
        names.add("size-all-mem-tables", "Approximate size of all write buffers in bytes",
                Keyspace.Figures::writeBufferBytes);
        names.add("cur-size-all-mem-tables", "Approximate size of all write buffers that are not flushed, in bytes",
                Keyspace.Figures::writeBufferBytes);
        names.add("num-entries-active-mem-table", "Total number of entries in the write buffers",
                Keyspace.Figures::writeBufferEntries);
        names.add("estimate-table-readers-mem", "Size of filters and indexes in bytes", Keyspace.Figures::indexBytes);
        metrics.addStoreLevelMutableMetric(task, scope, store.name(), "block-cache-capacity",
                "Memory budget of all Siltstone stores of the process in bytes", RecordingLevel.INFO,
                (config, now) -> TaskStore.budgetBytes());
        metrics.addStoreLevelMutableMetric(task, scope, store.name(), "block-cache-usage",
                "Memory that all Siltstone stores of the process hold in bytes", RecordingLevel.INFO,
                (config, now) -> TaskStore.memoryBytes());
    }

    private interface Names {
        void add(String name, String description, ToLongFunction<Keyspace.Figures> figure);
    }

    private static long sum(BaseStore store, ToLongFunction<Keyspace.Figures> figure) {
        long sum = 0;
        try {
            for (Table table : store.tables()) {
                sum += figure.applyAsLong(table.keyspace().figures());
            }
        } catch (SiltstoneException | IllegalStateException e) {
            // The store is being closed; Kafka asks from a thread of its own.
            return 0;
        }
        return sum;
    }
}
