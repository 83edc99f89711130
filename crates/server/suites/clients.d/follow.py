"""redis-py's RedisCluster while the cluster changes: every write that a replica has must be there in the end."""

import sys
import time

from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisError
from redis.retry import Retry

first, seconds = int(sys.argv[1]), int(sys.argv[2])
client = RedisCluster(
    startup_nodes=[ClusterNode("127.0.0.1", first + n) for n in range(6)],
    socket_timeout=2,
    retry=Retry(ExponentialBackoff(cap=1), 3),
    cluster_error_retry_attempts=5,
    decode_responses=True,
)
waited, writes, errors, longest, last = {}, 0, 0, 0.0, time.monotonic()
end = time.monotonic() + seconds
while time.monotonic() < end:
    key = f"py{writes % 1000}"
    writes += 1
    try:
        client.set(key, writes)
        replicas = client.execute_command("WAIT", 1, 100, target_nodes=client.get_node_from_key(key))
        if isinstance(replicas, dict):
            replicas = min(replicas.values())
        if replicas >= 1:
            waited[key] = writes
        longest = max(longest, time.monotonic() - last)
        last = time.monotonic()
    except RedisError:
        errors += 1
        time.sleep(0.05)
lost = [key for key, value in waited.items() if int(client.get(key) or 0) < value]
print(
    f"redis-py: {writes} writes, {len(waited)} keys waited for, {errors} errors, "
    f"longest pause {longest:.1f} s, {len(lost)} lost"
)
sys.exit(1 if lost or len(waited) < 100 or time.monotonic() - last > 10 else 0)
