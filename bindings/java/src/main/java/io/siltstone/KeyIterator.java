package io.siltstone;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.NoSuchElementException;

/**
 * Walks over items as they were when it was made. It is for one thread at a time, and pins files of the store until it is
 * closed or has come to its end.
 *
 * <pre>{@code
 * try (KeyIterator items = users.iterate(Range.ofPrefix(prefix))) {
 *     while (items.next()) {
 *         use(items.key(), items.value());
 *     }
 * }
 * }</pre>
 */
public final class KeyIterator implements AutoCloseable {
    /** Bytes of the first block, since many a range has few items, and of the largest. */
    private static final int FIRST_BLOCK_BYTES = 1 << 10;
    private static final int LARGEST_BLOCK_BYTES = 64 << 10;
    private static final byte[] NOTHING = {};

    private final Keyspace keyspace;
    private final Handle handle;
    private byte[] block = NOTHING;
    private int blockBytes = FIRST_BLOCK_BYTES;
    private int keyStart;
    private int valueStart;
    private int end;
    private boolean isAtItem;
    private boolean hasEnded;
    private boolean isClosed;

    KeyIterator(Keyspace keyspace, long number) {
        this.keyspace = keyspace;
        this.handle = new Handle(this, "iterator", number, taken -> Native.release(Native.ITERATOR, taken));
    }

    /** Goes to the next item, or the first one; false at the end. */
    public boolean next() throws SiltstoneException {
        isAtItem = false;
        checkOpen();
        if (hasEnded) {
            return false;
        }
        long number = handle.get();
        if (end == block.length) {
            try {
                block = Native.nextBlock(number, blockBytes);
            } finally {
                Reference.reachabilityFence(this);
            }
            if (block == null) {
                block = NOTHING;
                end = 0;
                hasEnded = true;
                handle.close();
                return false;
            }
            end = 0;
            blockBytes = Math.min(blockBytes * 4, LARGEST_BLOCK_BYTES);
        }
        ByteBuffer header = ByteBuffer.wrap(block, end, 8);
        int keyBytes = header.getInt();
        int valueBytes = header.getInt();
        keyStart = end + 8;
        valueStart = keyStart + keyBytes;
        end = valueStart + valueBytes;
        isAtItem = true;
        return true;
    }

    /** Returns the item's key. */
    public byte[] key() {
        checkItem();
        return Arrays.copyOfRange(block, keyStart, valueStart);
    }

    /**
     * Returns the item's key without its first bytes.
     *
     * @param start how many they are: 0 to as many as the key has
     */
    public byte[] keyFrom(int start) {
        checkItem();
        if (start < 0 || start > valueStart - keyStart) {
            throw new IndexOutOfBoundsException("start is " + start + ", and the key has "
                    + (valueStart - keyStart) + " bytes");
        }
        return Arrays.copyOfRange(block, keyStart + start, valueStart);
    }

    /** Returns the item's value; of no bytes where the range asks for keys only. */
    public byte[] value() {
        checkItem();
        return Arrays.copyOfRange(block, valueStart, end);
    }

    private void checkOpen() {
        if (isClosed || !keyspace.store().isOpen()) {
            throw new IllegalStateException(isClosed ? "the iterator is closed" : "the store is closed");
        }
    }

    private void checkItem() {
        checkOpen();
        if (!isAtItem) {
            throw new NoSuchElementException("next() has not gone to an item");
        }
    }

    /** Returns how many bytes of items it holds in Java's memory, of which it fetches many at a time. */
    public int heldBytes() {
        return block.length;
    }

    /** Returns what it walks over. */
    public Keyspace keyspace() {
        return keyspace;
    }

    @Override
    public void close() {
        isClosed = true;
        block = NOTHING;
        end = 0;
        handle.close();
    }
}
