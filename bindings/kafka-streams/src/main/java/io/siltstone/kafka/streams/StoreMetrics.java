package io.siltstone.kafka.streams;

import io.siltstone.Keyspace.Figures;
import io.siltstone.Keyspace.Jobs;
import io.siltstone.Keyspace.Work;
import io.siltstone.SiltstoneException;
import io.siltstone.Store;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ProcessorContextUtils;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * Metrics of a store under the names that Kafka gives RocksDB's, so that dashboards find them. They are read from the
 * engine when somebody asks, whatever the recording level. Kafka removes them with the store's others.
 *
 * <p>What RocksDB has and is not here is what the engine does not count: docs/kafka-streams.md names each with the reason.
 */
final class StoreMetrics {
    private static final double MICROS = 1000;

    private final BaseStore store;
    private final Adder metrics;

    private interface Adder {
        void add(String name, String description, Gauge<?> gauge);
    }

    private StoreMetrics(BaseStore store, StateStoreContext context) {
        this.store = store;
        StreamsMetricsImpl streams = ProcessorContextUtils.metricsImpl(context);
        String task = context.taskId().toString();
        String scope = store instanceof SiltstoneWindowStore ? SiltstoneWindowStore.SCOPE
                : store instanceof SiltstoneSessionStore ? SiltstoneSessionStore.SCOPE : SiltstoneKeyValueStore.SCOPE;
        metrics = (name, description, gauge) -> streams.addStoreLevelMutableMetric(task, scope, store.name(), name,
                description, RecordingLevel.INFO, gauge);
    }

    static void register(BaseStore store, StateStoreContext context) {
        StoreMetrics metrics = new StoreMetrics(store, context);
        metrics.addContents();
        metrics.addWriteBuffers();
        metrics.addWork();
        metrics.addTraffic();
        metrics.addShared();
    }

    private void addContents() {
        number("estimate-num-keys", "Estimated number of total keys in the tables and write buffers",
                () -> items());
        figure("total-sst-files-size", "Total size of all table files in bytes", Figures::tableBytes);
        figure("live-sst-files-size", "Total size of all table files of the latest version in bytes",
                Figures::tableBytes);
        figure("estimate-table-readers-mem", "Size of filters and indexes in bytes", Figures::indexBytes);
        number("iterators-usage", "Memory that open iterators of the store hold in Java, in bytes",
                store::bytesOfIterators);
    }

    private void addWriteBuffers() {
        figure("size-all-mem-tables", "Approximate size of all write buffers in bytes", Figures::writeBufferBytes);
        figure("cur-size-all-mem-tables", "Approximate size of all write buffers that are not flushed, in bytes",
                Figures::writeBufferBytes);
        figure("cur-size-active-mem-table", "Approximate size of the write buffers that take writes, in bytes",
                figures -> figures.writeBufferBytes() - figures.sealedBytes());
        figure("num-entries-active-mem-table", "Total number of entries in the write buffers that take writes",
                figures -> figures.writeBufferEntries() - figures.sealedEntries());
        figure("num-entries-imm-mem-tables", "Total number of entries in the write buffers that wait to be flushed",
                Figures::sealedEntries);
        figure("num-deletes-active-mem-table", "Total number of deletions in the write buffers that take writes",
                figures -> figures.writeBufferTombstones() - figures.sealedTombstones());
        figure("num-deletes-imm-mem-tables", "Total number of deletions in the write buffers that wait to be flushed",
                Figures::sealedTombstones);
        figure("num-immutable-mem-table", "Number of write buffers that wait to be flushed",
                Figures::sealedWriteBuffers);
        figure("mem-table-flush-pending", "Number of keyspaces, such as segments, of which a write buffer waits to be"
                + " flushed", figures -> figures.sealedWriteBuffers() > 0 ? 1 : 0);
    }

    private void addWork() {
        number("num-running-flushes", "Number of flushes that run", () -> jobs().flushes().running());
        number("num-running-compactions", "Number of compactions that run", () -> jobs().compactions().running());
        number("background-errors", "Number of flushes, compactions and syncs that failed and were tried again", () -> failed());
        perSecond("memtable-bytes-flushed", "written by flushes", () -> jobs().flushes().bytesWritten());
        number("memtable-bytes-flushed-total", "Total number of bytes written by flushes",
                () -> jobs().flushes().bytesWritten());
        perSecond("bytes-read-compaction", "read by compactions", () -> jobs().compactions().bytesRead());
        perSecond("bytes-written-compaction", "written by compactions", () -> jobs().compactions().bytesWritten());
        durations("memtable-flush-time", "flushing a write buffer", Jobs::flushes);
        durations("compaction-time", "a compaction", Jobs::compactions);
        real("write-stall-duration-avg", "Average duration of stops of the task's writers in ms",
                () -> ofTask(figures -> figures.stalledMicros() / MICROS / Math.max(1, figures.stalls())));
        real("write-stall-duration-total", "Total duration of stops of the task's writers in ms",
                () -> ofTask(figures -> figures.stalledMicros() / MICROS));
    }

    private void addTraffic() {
        LongSupplier written = store.traffic()::bytesWritten;
        LongSupplier read = store.traffic()::bytesRead;
        perSecond("bytes-written", "of keys and values written to the store", written);
        number("bytes-written-total", "Total number of bytes of keys and values written to the store", written);
        perSecond("bytes-read", "of values that gets of the store returned", read);
        number("bytes-read-total", "Total number of bytes of values that gets of the store returned", read);
        number("number-file-errors-total", "Total number of calls that failed since a file could not be used",
                store.traffic()::fileErrors);
        real("block-cache-data-hit-ratio", "Ratio of tables that gets looked at without a read of the device relative"
                + " to all that they looked at", () -> hitRatio());
    }

    /** What all stores of the process share. */
    private void addShared() {
        number("block-cache-capacity", "Memory budget of all Siltstone stores of the process in bytes",
                TaskStore::budgetBytes);
        number("block-cache-usage", "Memory that all Siltstone stores of the process hold in bytes",
                TaskStore::memoryBytes);
        number("number-open-files", "Number of tables' files that all Siltstone stores of the process keep open",
                TaskStore::openFiles);
    }

    private void number(String name, String description, LongSupplier number) {
        metrics.add(name, description, (config, now) -> whileOpen(number::getAsLong, 0L));
    }

    private void real(String name, String description, Supplier<Double> number) {
        metrics.add(name, description, (config, now) -> whileOpen(number, 0.0));
    }

    private void figure(String name, String description, ToLongFunction<Figures> figure) {
        number(name, description, () -> sum(figure));
    }

    private void perSecond(String name, String what, LongSupplier total) {
        Rate rate = new Rate();
        metrics.add(name + "-rate", "Average number of bytes per second " + what,
                (config, now) -> whileOpen(() -> rate.at(now, total.getAsLong()), 0.0));
    }

    private void durations(String name, String what, Function<Jobs, Work> kind) {
        ToDoubleFunction<Work> average = work -> work.totalMicros() / MICROS / Math.max(1, work.ended());
        real(name + "-avg", "Average time spent on " + what + " in ms", () -> average.applyAsDouble(kind.apply(jobs())));
        real(name + "-min", "Minimum time spent on " + what + " in ms", () -> kind.apply(jobs()).leastMicros() / MICROS);
        real(name + "-max", "Maximum time spent on " + what + " in ms", () -> kind.apply(jobs()).mostMicros() / MICROS);
    }

    private interface Asked<T> {
        T get() throws SiltstoneException;
    }

    private <T> T asked(Asked<T> question) {
        try {
            return question.get();
        } catch (SiltstoneException e) {
            throw store.failure("Error while asking for a metric of store " + store.name(), e);
        }
    }

    /** Kafka asks from a thread of its own: the store may be closed meanwhile, has no task then, and its tables are closed. */
    private <T> T whileOpen(Supplier<T> answer, T otherwise) {
        try {
            return store.isOpen() ? answer.get() : otherwise;
        } catch (IllegalStateException | InvalidStateStoreException e) {
            return otherwise;
        }
    }

    private long items() {
        return ofTables(Table::items);
    }

    private long sum(ToLongFunction<Figures> figure) {
        return ofTables(table -> figure.applyAsLong(table.keyspace().figures()));
    }

    private interface Counted {
        long of(Table table) throws SiltstoneException;
    }

    /** Adds up what tables hold; one that is dropped meanwhile holds nothing. */
    private long ofTables(Counted figure) {
        long sum = 0;
        for (Table table : store.tables()) {
            try {
                sum += asked(() -> figure.of(table));
            } catch (IllegalStateException e) {
                // Its handle is closed.
            }
        }
        return sum;
    }

    private Jobs jobs() {
        return asked(store::jobs);
    }

    /** Without other work for a keyspace: a filter for which there is no memory is no error. */
    private long failed() {
        Jobs jobs = jobs();
        return jobs.flushes().failed() + jobs.compactions().failed() + ofTask(Store.Figures::failedJobs);
    }

    private <T> T ofTask(Function<Store.Figures, T> figure) {
        return figure.apply(asked(store.task().store()::figures));
    }

    private double hitRatio() {
        long probed = sum(Figures::tablesProbed);
        return probed == 0 ? 0 : Math.max(0, 1 - sum(Figures::deviceReads) / (double) probed);
    }

    /** How fast a total grows: since it was asked for first, and then over the last half minute to minute. */
    static final class Rate {
        private static final long WINDOW_MS = 30_000;

        private boolean isBegun;
        private long fromMs;
        private long from;
        private long nextMs;
        private long next;

        synchronized double at(long nowMs, long total) {
            if (!isBegun || nowMs - nextMs >= WINDOW_MS) {
                fromMs = isBegun ? nextMs : nowMs;
                from = isBegun ? next : total;
                nextMs = nowMs;
                next = total;
                isBegun = true;
            }
            return nowMs <= fromMs ? 0 : (total - from) * 1000.0 / (nowMs - fromMs);
        }
    }
}
