package io.siltstone.kafka.streams;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** Supplies session stores of one name. */
class SiltstoneSessionSupplier implements SessionBytesStoreSupplier {
    private final String name;
    private final long retentionMs;
    private final boolean isByTime;

    SiltstoneSessionSupplier(String name, long retentionMs, boolean isByTime) {
        if (retentionMs < 0) {
            throw new IllegalArgumentException("retentionPeriod cannot be negative");
        }
        this.name = Objects.requireNonNull(name, "name cannot be null");
        this.retentionMs = retentionMs;
        this.isByTime = isByTime;
    }

    /** One that says that it knows headers. */
    static final class WithHeaders extends SiltstoneSessionSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name, long retentionMs, boolean isByTime) {
            super(name, retentionMs, isByTime);
        }

        @Override
        public SessionStore<Bytes, byte[]> get() {
            return new SiltstoneSessionStore.WithHeaders(this);
        }
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public SessionStore<Bytes, byte[]> get() {
        return new SiltstoneSessionStore(this, "s");
    }

    @Override
    public String metricsScope() {
        return SiltstoneSessionStore.SCOPE;
    }

    @Override
    public long segmentIntervalMs() {
        return Math.max(retentionMs / 2, 60_000L);
    }

    @Override
    public long retentionPeriod() {
        return retentionMs;
    }

    /** Whether ranges over all keys are ordered by time. */
    boolean isByTime() {
        return isByTime;
    }
}
