package io.siltstone.kafka.streams;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.LagInfo;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Sums numbers by key, and counts them by key and window, and others by session and by windows that are emitted once,
 * exactly once, in a process of its own: {@code SumApplication SERVERS STATE-DIRECTORY}. It says on its output when it
 * runs, from where it restores which store, which tasks it works on, and how far its stores are behind; it ends when its
 * input does.
 */
public final class SumApplication {
    static final String SUMS = "sums";
    static final String COUNTS = "counts";
    static final String SESSIONS = "sessions";
    static final String CLOSED = "closed";
    static final String FINAL = "final";
    /** What {@link #FINAL} is made of, under Kafka's cache. */
    static final String KEPT = "kept";
    static final Duration WINDOW = Duration.ofSeconds(10);
    static final Duration GAP = Duration.ofSeconds(10);
    static final Duration GRACE = Duration.ofMinutes(1);
    /** Topics, and the stores of the tasks that read each. */
    static final String NUMBERS = "numbers";
    static final String OTHERS = "others";
    static final Map<String, List<String>> STORES =
            Map.of(NUMBERS, List.of(SUMS, COUNTS), OTHERS, List.of(SESSIONS, CLOSED, KEPT));
    /** Kafka's own, in memory, of what is suppressed. */
    static final String SUPPRESSED = FINAL + "-store";

    private SumApplication() {}

    static Properties config(String servers, String directory) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "sums");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, SiltstoneDslStoreSuppliers.class);
        config.put(SiltstoneConfig.MEMORY_BYTES, 64 << 20);
        config.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        // A new instance has its tasks at once, and restores them itself. One that lacks more than this would follow their
        // changelogs first, until the next probing rebalance, for which Kafka takes no less than a minute.
        config.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, 10_000_000);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 1 << 20);
        // What is closed is emitted with the next record.
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 3000);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        config.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 5000);
        return config;
    }

    private static KGroupedStream<String, Long> byKey(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
    }

    private static void emit(KTable<Windowed<String>, Long> table, String topic) {
        table.toStream((window, count) -> window.key() + "@" + window.window().start())
                .to(topic, Produced.with(Serdes.String(), Serdes.Long()));
    }

    /**
     * Without a cache where each record makes one update. Windows are kept for little more than a minute, so that segments
     * are dropped all the time; those that are emitted when they close are walked by time.
     */
    private static Topology topology(Properties config) {
        StreamsBuilder builder = new StreamsBuilder();
        TimeWindows windows = TimeWindows.ofSizeAndGrace(WINDOW, GRACE);
        KGroupedStream<String, Long> numbers = byKey(builder, NUMBERS);
        numbers.reduce(Long::sum, Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(SUMS)
                .withCachingDisabled()).toStream().to(SUMS, Produced.with(Serdes.String(), Serdes.Long()));
        emit(numbers.windowedBy(windows).count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as(COUNTS)
                .withCachingDisabled()), COUNTS);
        KGroupedStream<String, Long> others = byKey(builder, OTHERS);
        emit(others.windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE)).count(Materialized
                .<String, Long, SessionStore<Bytes, byte[]>>as(SESSIONS).withCachingDisabled()), SESSIONS);
        emit(others.windowedBy(windows).emitStrategy(EmitStrategy.onWindowClose()).count(Materialized
                .<String, Long, WindowStore<Bytes, byte[]>>as(CLOSED).withCachingDisabled()
                .withRetention(WINDOW.plus(GRACE).multipliedBy(3))), CLOSED);
        emit(others.windowedBy(windows).count(Materialized.as(KEPT)).suppress(Suppressed
                .untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName(FINAL)), FINAL);
        return builder.build(config);
    }

    /** Starts the application; its input's end stops it. */
    public static void main(String[] arguments) throws Exception {
        Properties config = config(arguments[0], arguments[1]);
        CountDownLatch ended = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(topology(config), config)) {
            streams.setGlobalStateRestoreListener(new Restored());
            streams.setStandbyUpdateListener(new Followed());
            streams.setStateListener((now, before) -> {
                System.out.println("STATE " + now);
                if (now == KafkaStreams.State.ERROR) {
                    ended.countDown();
                }
            });
            streams.start();
            Thread input = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) { }
                } catch (java.io.IOException e) {
                    // As good as its end.
                }
                ended.countDown();
            });
            input.setDaemon(true);
            input.start();
            while (!ended.await(200, TimeUnit.MILLISECONDS)) {
                List<Long> behind = streams.allLocalStorePartitionLags().values().stream()
                        .flatMap(partitions -> partitions.values().stream()).map(LagInfo::offsetLag).toList();
                System.out.println("LAG " + behind.size() + " " + behind.stream().max(Long::compare).orElse(0L));
                System.out.println("ACTIVE " + streams.metadataForLocalThreads().stream()
                        .flatMap(thread -> thread.activeTasks().stream()).map(task -> task.taskId().toString()).sorted()
                        .collect(Collectors.joining(" ")));
            }
            streams.close(Duration.ofSeconds(30));
        }
        System.out.println("CLOSED");
    }

    private static void say(String what, String store, TopicPartition partition, long number) {
        System.out.println(what + " " + store + " " + partition.partition() + " " + number);
    }

    /** Says from where a standby goes on. */
    private static final class Followed implements StandbyUpdateListener {
        @Override
        public void onUpdateStart(TopicPartition partition, String store, long from) {
            say("STANDBY", store, partition, from);
        }

        @Override
        public void onBatchLoaded(TopicPartition partition, String store, TaskId task, long to, long count, long end) {}

        @Override
        public void onUpdateSuspended(TopicPartition partition, String store, long to, long end, SuspendReason why) {}
    }

    /** Says what was restored. */
    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
            say("RESTORE", store, partition, from);
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long to, long count) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long count) {
            say("RESTORED", store, partition, count);
        }
    }
}
