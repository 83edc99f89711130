package io.siltstone.kafka.streams;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;

/** A real broker in this process. */
final class LocalBroker implements AutoCloseable {
    private final KafkaClusterTestKit cluster;

    LocalBroker() throws Exception {
        TestKitNodes nodes = new TestKitNodes.Builder().setCombined(true).setNumBrokerNodes(1)
                .setNumControllerNodes(1).build();
        cluster = new KafkaClusterTestKit.Builder(nodes)
                .setConfigProp("offsets.topic.num.partitions", "1")
                .setConfigProp("offsets.topic.replication.factor", "1")
                .setConfigProp("transaction.state.log.num.partitions", "1")
                .setConfigProp("transaction.state.log.replication.factor", "1")
                .setConfigProp("transaction.state.log.min.isr", "1")
                .setConfigProp("group.min.session.timeout.ms", "500")
                .setConfigProp("group.initial.rebalance.delay.ms", "0")
                .build();
        try {
            cluster.format();
            cluster.startup();
            cluster.waitForReadyBrokers();
        } catch (Exception e) {
            cluster.close();
            throw e;
        }
    }

    String servers() {
        return cluster.bootstrapServers();
    }

    /** Returns once every partition answers: a producer that is earlier may lose its first batches. */
    void createTopics(int partitions, String... names) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers()))) {
            admin.createTopics(List.of(names).stream().map(name -> new NewTopic(name, partitions, (short) 1)).toList())
                    .all().get();
            Map<TopicPartition, OffsetSpec> all = new HashMap<>();
            for (String name : names) {
                for (int partition = 0; partition < partitions; partition++) {
                    all.put(new TopicPartition(name, partition), OffsetSpec.latest());
                }
            }
            admin.listOffsets(all).all().get();
        }
    }

    @Override
    public void close() throws Exception {
        cluster.close();
    }
}
