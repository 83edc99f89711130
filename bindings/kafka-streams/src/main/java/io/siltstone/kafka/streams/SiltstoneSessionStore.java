package io.siltstone.kafka.streams;

import java.nio.ByteBuffer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.internals.SessionKeySchema;

/** A session store: keys end in the session's end and start, 8 bytes each, as Kafka's do. */
class SiltstoneSessionStore extends SegmentedStore implements SessionStore<Bytes, byte[]> {
    static final String SCOPE = "siltstone-session";
    private static final int SUFFIX_BYTES = 2 * Long.BYTES;

    private final SessionKeySchema schema = new SessionKeySchema();

    SiltstoneSessionStore(SiltstoneSessionSupplier supplier, String kind) {
        super(supplier.name(), kind, supplier.retentionPeriod(), supplier.segmentIntervalMs(),
                SiltstoneSessionStore::end, supplier.isByTime() ? TimeOrder.OF_SESSIONS : null);
    }

    /** Whose values begin with headers. */
    static final class WithHeaders extends SiltstoneSessionStore implements HeadersBytesStore {
        WithHeaders(SiltstoneSessionSupplier supplier) {
            super(supplier, "sh");
        }
    }

    private static long end(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(stored.length - SUFFIX_BYTES);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> sessions(Bytes keyFrom, Bytes keyTo, byte[] low, byte[] high,
            long earliestEnd, long latestStart, boolean isForward) {
        KeyValueIterator<Bytes, byte[]> items = scan(earliestEnd, Long.MAX_VALUE, low, high, isForward, stored -> {
            Windowed<Bytes> session = SessionKeySchema.from(stored);
            return (keyFrom == null || session.key().compareTo(keyFrom) >= 0)
                    && (keyTo == null || session.key().compareTo(keyTo) <= 0)
                    && session.window().end() >= earliestEnd && session.window().start() <= latestStart;
        });
        return new Iterators.Keyed<>(items, SessionKeySchema::from);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> sessionsOf(Bytes key, long earliestEnd, long latestStart,
            boolean isForward) {
        requireKey(key);
        long end = oldestLive(earliestEnd);
        byte[] low = schema.lowerRangeFixedSize(key, end).get();
        byte[] high = schema.upperRangeFixedSize(key, latestStart).get();
        return sessions(key, key, low, high, end, latestStart, isForward);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> sessionsOf(Bytes keyFrom, Bytes keyTo, long earliestEnd,
            long latestStart, boolean isForward) {
        if (isBackwards(keyFrom, keyTo)) {
            return Iterators.none();
        }
        long end = oldestLive(earliestEnd);
        byte[] low = Iterators.bytes(schema.lowerRange(keyFrom, end));
        byte[] high = Iterators.bytes(schema.upperRange(keyTo, latestStart));
        return sessions(keyFrom, keyTo, low, high, end, latestStart, isForward);
    }

    /**
     * Sessions of all keys that end in a time range: what emitting on window close asks for. By their end where the DSL
     * made the store for that, else by key in each segment.
     */
    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long earliestSessionEndTime,
            long latestSessionEndTime) {
        KeyValueIterator<Bytes, byte[]> items = isByTime()
                ? scanByTime(earliestSessionEndTime, latestSessionEndTime, true)
                : scan(Math.max(0, earliestSessionEndTime), latestSessionEndTime, null, null, true,
                        stored -> end(stored.get()) >= earliestSessionEndTime
                                && end(stored.get()) <= latestSessionEndTime);
        return new Iterators.Keyed<>(items, SessionKeySchema::from);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestSessionEndTime,
            long latestSessionStartTime) {
        return sessionsOf(key, earliestSessionEndTime, latestSessionStartTime, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key, long earliestSessionEndTime,
            long latestSessionStartTime) {
        return sessionsOf(key, earliestSessionEndTime, latestSessionStartTime, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes keyFrom, Bytes keyTo,
            long earliestSessionEndTime, long latestSessionStartTime) {
        return sessionsOf(keyFrom, keyTo, earliestSessionEndTime, latestSessionStartTime, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes keyFrom, Bytes keyTo,
            long earliestSessionEndTime, long latestSessionStartTime) {
        return sessionsOf(keyFrom, keyTo, earliestSessionEndTime, latestSessionStartTime, false);
    }

    @Override
    public byte[] fetchSession(Bytes key, long sessionStartTime, long sessionEndTime) {
        requireKey(key);
        return getKey(SessionKeySchema.toBinary(key, sessionStartTime, sessionEndTime));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return sessionsOf(key, 0, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return sessionsOf(key, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return sessionsOf(keyFrom, keyTo, 0, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return sessionsOf(keyFrom, keyTo, 0, Long.MAX_VALUE, false);
    }

    @Override
    public void remove(Windowed<Bytes> sessionKey) {
        removeKey(SessionKeySchema.toBinary(sessionKey));
    }

    @Override
    public void put(Windowed<Bytes> sessionKey, byte[] aggregate) {
        putKey(SessionKeySchema.toBinary(sessionKey), aggregate);
    }
}
