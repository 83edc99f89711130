package io.siltstone.kafka.streams;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** Supplies window stores of one name. */
class SiltstoneWindowSupplier implements WindowBytesStoreSupplier {
    private final String name;
    private final DslStoreFormat format;
    private final long retentionMs;
    private final long windowMs;
    private final boolean retainsDuplicates;
    private final boolean isByTime;

    SiltstoneWindowSupplier(String name, DslStoreFormat format, long retentionMs, long windowMs,
            boolean retainsDuplicates, boolean isByTime) {
        if (retentionMs < 0 || windowMs < 0) {
            throw new IllegalArgumentException("retentionPeriod and windowSize cannot be negative");
        }
        if (windowMs > retentionMs) {
            throw new IllegalArgumentException("The retention period of the window store " + name
                    + " must be no smaller than its window size. Got size=[" + windowMs + "], retention=["
                    + retentionMs + "]");
        }
        this.name = Objects.requireNonNull(name, "name cannot be null");
        this.format = format;
        this.retentionMs = retentionMs;
        this.windowMs = windowMs;
        this.retainsDuplicates = retainsDuplicates;
        this.isByTime = isByTime;
    }

    /** One that says that it knows headers. */
    static final class WithHeaders extends SiltstoneWindowSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name, long retentionMs, long windowMs, boolean retainsDuplicates, boolean isByTime) {
            super(name, DslStoreFormat.HEADERS, retentionMs, windowMs, retainsDuplicates, isByTime);
        }
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public WindowStore<Bytes, byte[]> get() {
        return switch (format) {
            case HEADERS -> new SiltstoneWindowStore.WithHeaders(this);
            case TIMESTAMPED -> new SiltstoneWindowStore.Timestamped(this);
            case PLAIN -> new SiltstoneWindowStore(this, "w");
        };
    }

    @Override
    public String metricsScope() {
        return SiltstoneWindowStore.SCOPE;
    }

    @Override
    public long segmentIntervalMs() {
        return Math.max(retentionMs / 2, 60_000L);
    }

    @Override
    public long windowSize() {
        return windowMs;
    }

    @Override
    public boolean retainDuplicates() {
        return retainsDuplicates;
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
