package io.siltstone.kafka.streams;

import io.siltstone.SiltstoneException;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * Items of a table, as Kafka's iterator, with the next item read ahead. The store closes it too, from whichever
 * thread: each method is done before that or finds it closed, and what was read ahead is gone then.
 */
final class RawIterator implements KeyValueIterator<Bytes, byte[]> {
    private final BaseStore store;
    private final Items items;
    private final Runnable onClose;
    private Bytes nextKey;
    private byte[] nextValue;
    private boolean isAhead;
    private boolean isClosed;

    RawIterator(BaseStore store, Items items, Runnable onClose) {
        this.store = store;
        this.items = items;
        this.onClose = onClose;
    }

    private void readAhead() {
        if (isClosed) {
            throw new InvalidStateStoreException("An iterator of store " + store.name() + " is closed");
        }
        if (isAhead) {
            return;
        }
        try {
            if (items.next()) {
                nextKey = Bytes.wrap(items.key());
                nextValue = items.value();
            } else {
                nextKey = null;
                nextValue = null;
            }
            isAhead = true;
        } catch (SiltstoneException e) {
            throw store.failure("Error while iterating over store " + store.name(), e);
        } catch (IllegalStateException e) {
            throw new InvalidStateStoreException("An iterator of store " + store.name() + " is closed", e);
        }
    }

    @Override
    public synchronized boolean hasNext() {
        readAhead();
        return nextKey != null;
    }

    @Override
    public synchronized Bytes peekNextKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return nextKey;
    }

    @Override
    public synchronized KeyValue<Bytes, byte[]> next() {
        KeyValue<Bytes, byte[]> item = new KeyValue<>(peekNextKey(), nextValue);
        isAhead = false;
        return item;
    }

    /** Returns how many items it holds in Java's memory. */
    synchronized int held() {
        return items.held() + (isAhead && nextKey != null ? 1 : 0);
    }

    /** Returns how many bytes it holds in Java's memory. */
    synchronized long bytes() {
        return items.bytes() + (isAhead && nextKey != null ? nextKey.get().length + nextValue.length : 0);
    }

    @Override
    public synchronized void close() {
        if (!isClosed) {
            isClosed = true;
            nextKey = null;
            nextValue = null;
            items.close();
            onClose.run();
        }
    }
}
