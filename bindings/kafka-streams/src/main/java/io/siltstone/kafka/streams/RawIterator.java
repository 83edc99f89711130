package io.siltstone.kafka.streams;

import io.siltstone.KeyIterator;
import io.siltstone.SiltstoneException;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * The engine's iterator over a table, as Kafka's, with the next item read ahead. The store closes it too, from whichever
 * thread: each method is done before that or finds it closed, and what was read ahead is gone then.
 */
final class RawIterator implements KeyValueIterator<Bytes, byte[]> {
    private final String name;
    private final KeyIterator items;
    private final Runnable onClose;
    private Bytes nextKey;
    private byte[] nextValue;
    private boolean isAhead;
    private boolean isClosed;

    RawIterator(String name, KeyIterator items, Runnable onClose) {
        this.name = name;
        this.items = items;
        this.onClose = onClose;
    }

    private void readAhead() {
        if (isClosed) {
            throw new InvalidStateStoreException("An iterator of store " + name + " is closed");
        }
        if (isAhead) {
            return;
        }
        try {
            if (items.next()) {
                nextKey = Bytes.wrap(items.keyFrom(1));
                nextValue = items.value();
            } else {
                nextKey = null;
                nextValue = null;
            }
            isAhead = true;
        } catch (SiltstoneException e) {
            throw new ProcessorStateException("Error while iterating over store " + name, e);
        } catch (IllegalStateException e) {
            throw new InvalidStateStoreException("An iterator of store " + name + " is closed", e);
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
