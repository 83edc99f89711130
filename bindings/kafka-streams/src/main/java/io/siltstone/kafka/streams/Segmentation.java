package io.siltstone.kafka.streams;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * How time is divided into segments: by an interval, and from some time on by another, where an application came back with
 * another retention period. What was written before stays in the segments that it is in. A value that does not change.
 */
final class Segmentation {
    private static final int ENTRY_BYTES = 2 * Long.BYTES;

    /** The interval from a time on. The first time is before all others. */
    private final NavigableMap<Long, Long> intervals;

    private Segmentation(NavigableMap<Long, Long> intervals) {
        this.intervals = intervals;
    }

    static Segmentation of(long intervalMs) {
        return new Segmentation(new TreeMap<>(Map.of(Long.MIN_VALUE, intervalMs)));
    }

    /** When the segment of a time begins. */
    long start(long time) {
        Map.Entry<Long, Long> since = intervals.floorEntry(time);
        long past = Math.floorMod(time, since.getValue());
        return time < Long.MIN_VALUE + past ? Long.MIN_VALUE : Math.max(since.getKey(), time - past);
    }

    /** When the segment that begins then ends, and the next one begins. */
    private long end(long start) {
        long interval = intervals.floorEntry(start).getValue();
        long end = start + (interval - Math.floorMod(start, interval));
        Long change = intervals.higherKey(start);
        return end < start ? Long.MAX_VALUE : change == null ? end : Math.min(end, change);
    }

    /**
     * Divides by another interval what is after all segments that there are.
     *
     * @param first when the first segment begins that there is
     * @param last  when the last one does
     */
    Segmentation changedTo(long intervalMs, long first, long last) {
        NavigableMap<Long, Long> changed = new TreeMap<>();
        changed.put(Long.MIN_VALUE, intervals.floorEntry(first).getValue());
        long end = end(last);
        changed.putAll(intervals.subMap(first, false, end, false));
        if (changed.lastEntry().getValue() != intervalMs) {
            changed.put(end, intervalMs);
        }
        return new Segmentation(changed);
    }

    byte[] encode() {
        ByteBuffer bytes = ByteBuffer.allocate(intervals.size() * ENTRY_BYTES);
        intervals.forEach((from, interval) -> bytes.putLong(from).putLong(interval));
        return bytes.array();
    }

    static Segmentation decode(byte[] encoded) {
        NavigableMap<Long, Long> intervals = new TreeMap<>();
        for (ByteBuffer bytes = ByteBuffer.wrap(encoded); bytes.hasRemaining();) {
            intervals.put(bytes.getLong(), bytes.getLong());
        }
        return new Segmentation(intervals);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Segmentation segmentation && intervals.equals(segmentation.intervals);
    }

    @Override
    public int hashCode() {
        return intervals.hashCode();
    }

    @Override
    public String toString() {
        return intervals.toString();
    }
}
