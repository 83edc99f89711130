package io.siltstone.kafka.streams;

import io.siltstone.KeyIterator;
import io.siltstone.Keyspace;
import io.siltstone.Range;
import io.siltstone.SiltstoneException;
import io.siltstone.Snapshot;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.streams.errors.ProcessorStateException;

/** Items of a table, one after the other, as the engine walks over them. For one thread at a time. */
interface Items {
    /** Goes to the next item, or the first one; false at the end. */
    boolean next() throws SiltstoneException;

    /** Returns the item's key, as Kafka knows it. */
    byte[] key();

    byte[] value();

    /** Returns how many items are in Java's memory beside the engine's block. */
    int held();

    /** Returns how many bytes are in Java's memory. */
    long bytes();

    void close();

    /** By key: the engine's own order. */
    record ByKey(KeyIterator items) implements Items {
        @Override
        public boolean next() throws SiltstoneException {
            return items.next();
        }

        @Override
        public byte[] key() {
            return items.keyFrom(Table.GROUP_BYTES);
        }

        @Override
        public byte[] value() {
            return items.value();
        }

        @Override
        public int held() {
            return 0;
        }

        @Override
        public long bytes() {
            return items.heldBytes();
        }

        @Override
        public void close() {
            items.close();
        }
    }

    /**
     * By time: the table's keys by time are walked, and the values that belong to some of them are got at once. What is
     * held is those few, however many items there are.
     */
    final class ByTime implements Items {
        /** Items that are got at once. */
        static final int MOST_HELD = 32;

        /** Its own: it reads on where the table is closed since its segment is dropped. */
        private final Keyspace keyspace;
        private final TimeOrder order;
        private final Snapshot snapshot;
        private final KeyIterator times;
        private List<byte[]> keys = List.of();
        private List<byte[]> values = List.of();
        private int place;
        private boolean hasFailed;

        ByTime(Keyspace of, TimeOrder order, Range times) throws SiltstoneException {
            this.order = order;
            keyspace = of.store().existingKeyspace(of.name())
                    .orElseThrow(() -> new IllegalStateException(of.name() + " was dropped"));
            Snapshot taken = null;
            try {
                taken = of.store().snapshot();
                this.times = taken.iterate(keyspace, times.keysOnly());
                snapshot = taken;
            } catch (SiltstoneException | RuntimeException e) {
                keyspace.close();
                if (taken != null) {
                    taken.close();
                }
                throw e;
            }
        }

        @Override
        public boolean next() throws SiltstoneException {
            if (hasFailed) {
                throw new ProcessorStateException("An earlier read of " + keyspace.name() + " by time has failed");
            }
            place++;
            return place < keys.size() || getMore();
        }

        /** What is read counts once all of it is there: after a failure nobody can tell where the walk stands. */
        private boolean getMore() throws SiltstoneException {
            hasFailed = true;
            List<byte[]> nextKeys = new ArrayList<>(MOST_HELD);
            while (nextKeys.size() < MOST_HELD && times.next()) {
                nextKeys.add(Table.marked(order.byKey(times.keyFrom(Table.GROUP_BYTES))));
            }
            List<byte[]> nextValues = nextKeys.isEmpty() ? List.of() : snapshot.getMany(keyspace, nextKeys);
            if (nextValues.stream().anyMatch(Objects::isNull)) {
                throw new ProcessorStateException("A key by time in " + keyspace.name() + " has no value");
            }
            keys = nextKeys;
            values = nextValues;
            place = 0;
            hasFailed = false;
            return !keys.isEmpty();
        }

        @Override
        public byte[] key() {
            return Table.unmarked(keys.get(place));
        }

        @Override
        public byte[] value() {
            return values.get(place);
        }

        @Override
        public int held() {
            return keys.size();
        }

        @Override
        public long bytes() {
            long bytes = times.heldBytes();
            for (int i = 0; i < keys.size(); i++) {
                bytes += keys.get(i).length + values.get(i).length;
            }
            return bytes;
        }

        @Override
        public void close() {
            times.close();
            snapshot.close();
            keyspace.close();
            keys = List.of();
            values = List.of();
        }
    }
}
