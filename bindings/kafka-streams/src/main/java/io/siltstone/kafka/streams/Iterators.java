package io.siltstone.kafka.streams;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Iterators made of others. */
final class Iterators {
    /** Kafka's words: its suites, and whoever searches logs for it, look for these. */
    static final String BACKWARDS = "Returning empty iterator for fetch with invalid key range: from > to. "
            + "This may be due to range arguments set in the wrong order, "
            + "or serdes that don't preserve ordering when lexicographically comparing the serialized bytes. "
            + "Note that the built-in numerical serdes do not follow this for negative numbers";

    private Iterators() {}

    static boolean isBackwards(Bytes from, Bytes to) {
        return from != null && to != null && from.compareTo(to) > 0;
    }

    static byte[] bytes(Bytes bytes) {
        return bytes == null ? null : bytes.get();
    }

    /** The first key after all that begin with the prefix, or null where there is none. */
    static byte[] afterPrefix(byte[] prefix) {
        for (int last = prefix.length - 1; last >= 0; last--) {
            if (prefix[last] != (byte) 0xFF) {
                byte[] after = Arrays.copyOf(prefix, last + 1);
                after[last]++;
                return after;
            }
        }
        return null;
    }

    static <K> KeyValueIterator<K, byte[]> none() {
        return new KeyValueIterator<>() {
            @Override
            public boolean hasNext() {
                return false;
            }

            @Override
            public K peekNextKey() {
                throw new NoSuchElementException();
            }

            @Override
            public KeyValue<K, byte[]> next() {
                throw new NoSuchElementException();
            }

            @Override
            public void close() {}
        };
    }

    /** The items of an iterator up to the first whose key is not wanted. */
    static final class While implements KeyValueIterator<Bytes, byte[]> {
        private final KeyValueIterator<Bytes, byte[]> items;
        private final Predicate<Bytes> isWanted;

        While(KeyValueIterator<Bytes, byte[]> items, Predicate<Bytes> isWanted) {
            this.items = items;
            this.isWanted = isWanted;
        }

        @Override
        public boolean hasNext() {
            return items.hasNext() && isWanted.test(items.peekNextKey());
        }

        @Override
        public Bytes peekNextKey() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return items.peekNextKey();
        }

        @Override
        public KeyValue<Bytes, byte[]> next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return items.next();
        }

        @Override
        public void close() {
            items.close();
        }
    }

    /**
     * The items of one segment after the other whose keys are wanted. A segment that is dropped meanwhile is walked to
     * its end if it was begun, and left out if not. Ends where the store is closed, as those of Kafka's own segments do.
     */
    static final class Segments implements KeyValueIterator<Bytes, byte[]> {
        private final ArrayDeque<Table> tables;
        private final Function<Table, KeyValueIterator<Bytes, byte[]>> open;
        private final Predicate<Bytes> isWanted;
        private KeyValueIterator<Bytes, byte[]> items;

        Segments(List<Table> tables, Function<Table, KeyValueIterator<Bytes, byte[]>> open, Predicate<Bytes> isWanted) {
            this.tables = new ArrayDeque<>(tables);
            this.open = open;
            this.isWanted = isWanted;
        }

        @Override
        public synchronized boolean hasNext() {
            while (true) {
                try {
                    if (items == null) {
                        if (tables.isEmpty()) {
                            return false;
                        }
                        items = open.apply(tables.poll());
                    }
                    while (items.hasNext()) {
                        if (isWanted.test(items.peekNextKey())) {
                            return true;
                        }
                        items.next();
                    }
                } catch (InvalidStateStoreException e) {
                    // The segment was dropped or the store closed; what comes after it may still be there.
                }
                if (items == null) {
                    continue;
                }
                items.close();
                items = null;
            }
        }

        @Override
        public Bytes peekNextKey() {
            return found(KeyValueIterator::peekNextKey);
        }

        @Override
        public KeyValue<Bytes, byte[]> next() {
            return found(KeyValueIterator::next);
        }

        /** Takes what {@link #hasNext} found; looks again where the store was closed between the two. */
        private synchronized <T> T found(Function<KeyValueIterator<Bytes, byte[]>, T> take) {
            while (hasNext()) {
                try {
                    return take.apply(items);
                } catch (InvalidStateStoreException e) {
                    // Closed by another thread: hasNext() finds that out, and ends.
                }
            }
            throw new NoSuchElementException();
        }

        @Override
        public synchronized void close() {
            tables.clear();
            if (items != null) {
                items.close();
                items = null;
            }
        }
    }

    /** An iterator with other keys. */
    static class Keyed<K> implements KeyValueIterator<K, byte[]> {
        private final KeyValueIterator<Bytes, byte[]> items;
        private final Function<Bytes, K> key;

        Keyed(KeyValueIterator<Bytes, byte[]> items, Function<Bytes, K> key) {
            this.items = items;
            this.key = key;
        }

        @Override
        public boolean hasNext() {
            return items.hasNext();
        }

        @Override
        public K peekNextKey() {
            return key.apply(items.peekNextKey());
        }

        @Override
        public KeyValue<K, byte[]> next() {
            KeyValue<Bytes, byte[]> item = items.next();
            return new KeyValue<>(key.apply(item.key), item.value);
        }

        @Override
        public void close() {
            items.close();
        }
    }

    /** The windows of one key, by their start. */
    static final class Windows extends Keyed<Long> implements WindowStoreIterator<byte[]> {
        Windows(KeyValueIterator<Bytes, byte[]> items, Function<Bytes, Long> start) {
            super(items, start);
        }
    }
}
