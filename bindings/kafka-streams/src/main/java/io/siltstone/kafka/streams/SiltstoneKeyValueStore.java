package io.siltstone.kafka.streams;

import io.siltstone.SiltstoneException;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A key-value store: one keyspace of the task's store, in byte order. */
class SiltstoneKeyValueStore extends BaseStore implements KeyValueStore<Bytes, byte[]> {
    static final String SCOPE = "siltstone";
    private static final Logger LOG = LoggerFactory.getLogger(SiltstoneKeyValueStore.class);

    private volatile Table table;

    SiltstoneKeyValueStore(String name, String kind) {
        super(name, kind);
    }

    /** Whose values begin with a timestamp. */
    static final class Timestamped extends SiltstoneKeyValueStore implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name, "kt");
        }
    }

    /** Whose values begin with headers and a timestamp. */
    static final class WithHeaders extends SiltstoneKeyValueStore implements HeadersBytesStore {
        WithHeaders(String name) {
            super(name, "kh");
        }
    }

    @Override
    void openTables() throws SiltstoneException {
        table = task().table(keyspaceName(), null);
    }

    @Override
    Collection<Table> tables() {
        return table == null ? List.of() : List.of(table);
    }

    @Override
    void closeTables() {
        if (table != null) {
            table.close();
        }
    }

    @Override
    void restore(byte[] key, byte[] value) throws SiltstoneException {
        writeRestored(table, key, value);
    }

    @Override
    public synchronized void put(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        validateOpen();
        write(table, key.get(), value);
    }

    @Override
    public synchronized byte[] putIfAbsent(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] before = get(key);
        if (before == null && value != null) {
            put(key, value);
        }
        return before;
    }

    @Override
    public synchronized void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        validateOpen();
        for (KeyValue<Bytes, byte[]> entry : entries) {
            Objects.requireNonNull(entry.key, "key cannot be null");
        }
        for (KeyValue<Bytes, byte[]> entry : entries) {
            write(table, entry.key.get(), entry.value);
        }
    }

    @Override
    public synchronized byte[] delete(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] before = get(key);
        put(key, null);
        return before;
    }

    @Override
    public byte[] get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        validateOpen();
        return read(table, key.get());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return range(from, to, true);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return range(from, to, false);
    }

    private KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to, boolean isForward) {
        if (Iterators.isBackwards(from, to)) {
            LOG.warn(Iterators.BACKWARDS);
            return Iterators.none();
        }
        return iterate(table, Iterators.bytes(from), Iterators.bytes(to), isForward);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return iterate(table, null, null, true);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return iterate(table, null, null, false);
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS serializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(serializer, "prefixKeySerializer cannot be null");
        byte[] from = serializer.serialize(null, prefix);
        byte[] end = Iterators.afterPrefix(from);
        KeyValueIterator<Bytes, byte[]> items = iterate(table, from, end, true);
        // The range ends with the first key after the prefix, which may be there.
        return new Iterators.While(items, key -> end == null || key.compareTo(Bytes.wrap(end)) < 0);
    }

    @Override
    public synchronized long approximateNumEntries() {
        validateOpen();
        try {
            return table.keyspace().approximateLength() + table.count();
        } catch (SiltstoneException e) {
            throw failure("Error estimating the entries of store " + name(), e);
        }
    }
}
