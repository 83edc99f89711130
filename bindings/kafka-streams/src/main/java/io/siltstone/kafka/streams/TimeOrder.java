package io.siltstone.kafka.streams;

import java.nio.ByteBuffer;

/**
 * How keys of windows or sessions become keys by time, and back. Kafka's keys end in times, of which the first one is when
 * the window starts or the session ends; by time these come first.
 *
 * <pre>
 * window    key · start 8 · sequence 4   start · key · sequence
 * session   key · end 8 · start 8        end · start · key
 * </pre>
 *
 * @param timeBytes bytes of times
 * @param tailBytes bytes after them
 */
record TimeOrder(int timeBytes, int tailBytes) {
    static final TimeOrder OF_WINDOWS = new TimeOrder(Long.BYTES, Integer.BYTES);
    static final TimeOrder OF_SESSIONS = new TimeOrder(2 * Long.BYTES, 0);

    byte[] byTime(byte[] key) {
        int rest = key.length - timeBytes - tailBytes;
        return ByteBuffer.allocate(key.length).put(key, rest, timeBytes).put(key, 0, rest)
                .put(key, rest + timeBytes, tailBytes).array();
    }

    byte[] byKey(byte[] byTime) {
        int rest = byTime.length - timeBytes - tailBytes;
        return ByteBuffer.allocate(byTime.length).put(byTime, timeBytes, rest).put(byTime, 0, timeBytes)
                .put(byTime, timeBytes + rest, tailBytes).array();
    }
}
