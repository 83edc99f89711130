package io.siltstone.kafka.streams;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * Sums numbers by key, exactly once, in a process of its own: {@code SumApplication SERVERS STATE-DIRECTORY}. It says on its
 * output when it runs, and how many records it restored of which partition, and ends when its input does.
 */
public final class SumApplication {
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
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 3000);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        config.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 5000);
        return config;
    }

    /** Starts the application; its input's end stops it. */
    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("numbers", Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
                .reduce(Long::sum)
                .toStream()
                .to("sums", Produced.with(Serdes.String(), Serdes.Long()));
        Properties config = config(arguments[0], arguments[1]);
        CountDownLatch ended = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(builder.build(config), config)) {
            streams.setGlobalStateRestoreListener(new Restored());
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
            ended.await();
            streams.close(Duration.ofSeconds(30));
        }
        System.out.println("CLOSED");
    }

    /** Says what was restored. */
    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long to, long count) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long count) {
            System.out.println("RESTORED " + partition.partition() + " " + count);
        }
    }
}
