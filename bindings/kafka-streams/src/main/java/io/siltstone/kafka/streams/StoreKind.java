package io.siltstone.kafka.streams;

import io.siltstone.Batch;
import io.siltstone.SiltstoneException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/**
 * Which kind a state store is of, as it is kept with the task's state. A store may become one of another kind, by another
 * {@code dsl.store.format} or by a cache, and then be what it was before. What it held then is too old to go on from: its
 * changelog may have lost the deletions since. So what it holds as another kind is removed, and as this one, where it was of
 * another kind in between.
 *
 * <p>The order bears a kill anywhere. Old state is gone before the kind is set that makes it look new, and its offsets go
 * before its items, so that no offset stands beside less than it says.
 */
final class StoreKind {
    private final TaskStore task;
    private final String name;

    private StoreKind(TaskStore task, String name) {
        this.task = task;
        this.name = name;
    }

    /** Makes a store one of a kind, before its tables are opened. */
    static void set(TaskStore task, String name, String kind) throws SiltstoneException {
        new StoreKind(task, name).set(kind);
    }

    private void set(String kind) throws SiltstoneException {
        Map<String, List<String>> keyspaces = keyspaces();
        List<String> own = Objects.requireNonNullElse(keyspaces.remove(kind), List.of());
        keyspaces.values().forEach(others -> others.forEach(task::checkClosed));
        byte[] key = bytes("*/" + name + "/kind/");
        byte[] stored = task.meta().get(key);
        if (!Arrays.equals(stored, bytes(kind))) {
            if (stored != null) {
                own.forEach(task::checkClosed);
                forget(kind, own);
            }
            // Whatever is written as this kind stands behind it in the log.
            task.write(batch -> batch.put(task.meta(), key, bytes(kind)));
        }
        for (Map.Entry<String, List<String>> other : keyspaces.entrySet()) {
            forget(other.getKey(), other.getValue());
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** The store's keyspaces, or those of its segments, by kind. */
    private Map<String, List<String>> keyspaces() throws SiltstoneException {
        Map<String, List<String>> keyspaces = new TreeMap<>();
        for (String keyspace : task.keyspaces()) {
            int end = keyspace.indexOf('/');
            String rest = keyspace.substring(end + 1);
            if (end >= 0 && (rest.equals(name) || rest.startsWith(name + SegmentedStore.SEPARATOR))) {
                keyspaces.computeIfAbsent(keyspace.substring(0, end), kind -> new ArrayList<>()).add(keyspace);
            }
        }
        return keyspaces;
    }

    private void forget(String kind, List<String> keyspaces) throws SiltstoneException {
        Batch batch = new Batch();
        task.metaKeys(bytes(kind + "/" + name + "/")).forEach(key -> batch.delete(task.meta(), key));
        task.store().write(batch, true);
        for (String keyspace : keyspaces) {
            task.store().dropKeyspace(keyspace);
        }
    }
}
