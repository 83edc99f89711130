import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

/** Jedis or Lettuce while the cluster changes: every write that a replica has must be there in the end. */
public class Follow {
    interface Client {
        void set(String key, String value);

        String get(String key);

        long waitFor(String key);
    }

    static Client jedis(int first) {
        Set<HostAndPort> nodes = new HashSet<>();
        for (int n = 0; n < 6; n++) {
            nodes.add(new HostAndPort("127.0.0.1", first + n));
        }
        JedisCluster cluster = new JedisCluster(nodes, 2000, 10);
        return new Client() {
            public void set(String key, String value) {
                cluster.set(key, value);
            }

            public String get(String key) {
                return cluster.get(key);
            }

            public long waitFor(String key) {
                return cluster.waitReplicas(key, 1, 100);
            }
        };
    }

    static Client lettuce(int first) {
        List<RedisURI> nodes = new ArrayList<>();
        for (int n = 0; n < 6; n++) {
            nodes.add(RedisURI.create("redis://127.0.0.1:" + (first + n)));
        }
        RedisClusterClient client = RedisClusterClient.create(nodes);
        client.setOptions(ClusterClientOptions.builder()
            .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                .enableAllAdaptiveRefreshTriggers().enablePeriodicRefresh(Duration.ofSeconds(2)).build())
            .build());
        StatefulRedisClusterConnection<String, String> connection = client.connect();
        connection.setTimeout(Duration.ofSeconds(2));
        return new Client() {
            public void set(String key, String value) {
                connection.sync().set(key, value);
            }

            public String get(String key) {
                return connection.sync().get(key);
            }

            public long waitFor(String key) {
                String node = connection.getPartitions().getPartitionBySlot(SlotHash.getSlot(key)).getNodeId();
                return connection.getConnection(node).sync().waitForReplication(1, 100);
            }
        };
    }

    public static void main(String[] words) throws Exception {
        String name = words[0];
        int first = Integer.parseInt(words[1]);
        long end = System.nanoTime() + Long.parseLong(words[2]) * 1_000_000_000L;
        Client client = name.equals("jedis") ? jedis(first) : lettuce(first);
        Map<String, Long> waited = new HashMap<>();
        long writes = 0, errors = 0, longest = 0, last = System.nanoTime();
        while (System.nanoTime() < end) {
            String key = name + writes % 1000;
            writes++;
            try {
                client.set(key, Long.toString(writes));
                if (client.waitFor(key) >= 1) {
                    waited.put(key, writes);
                }
                longest = Math.max(longest, System.nanoTime() - last);
                last = System.nanoTime();
            } catch (RuntimeException error) {
                errors++;
                Thread.sleep(50);
            }
        }
        int lost = 0;
        for (Map.Entry<String, Long> entry : waited.entrySet()) {
            String value = client.get(entry.getKey());
            lost += value == null || Long.parseLong(value) < entry.getValue() ? 1 : 0;
        }
        System.out.printf("%s: %d writes, %d keys waited for, %d errors, longest pause %.1f s, %d lost%n",
            name, writes, waited.size(), errors, longest / 1e9, lost);
        System.exit(lost > 0 || waited.size() < 100 || System.nanoTime() - last > 10_000_000_000L ? 1 : 0);
    }
}
