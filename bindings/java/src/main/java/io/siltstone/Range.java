package io.siltstone;

import java.util.Objects;

/** What an iterator walks over, and how. Each method changes this value and returns it. */
public final class Range {
    private static final byte[] NOTHING = {};

    byte[] prefix;
    int fromKind;
    byte[] from = NOTHING;
    int toKind;
    byte[] to = NOTHING;
    boolean isReverse;
    boolean keysOnly;

    /** All items, in the keyspace's order. */
    public Range() {}

    /** Items whose keys have this prefix, by the schema: in byte order where suffixes are ordered. */
    public static Range ofPrefix(byte[] prefix) {
        Range range = new Range();
        range.prefix = Objects.requireNonNull(prefix, "prefix");
        return range;
    }

    /** Only those whose suffix, the key without its prefix, is at or after this. */
    public Range from(byte[] suffix) {
        return lower(1, suffix);
    }

    /** Only those whose suffix is after this. */
    public Range after(byte[] suffix) {
        return lower(2, suffix);
    }

    /** Only those whose suffix is at or before this. */
    public Range to(byte[] suffix) {
        return upper(1, suffix);
    }

    /** Only those whose suffix is before this. */
    public Range before(byte[] suffix) {
        return upper(2, suffix);
    }

    private Range lower(int kind, byte[] suffix) {
        checkPrefix();
        from = Objects.requireNonNull(suffix, "suffix");
        fromKind = kind;
        return this;
    }

    private Range upper(int kind, byte[] suffix) {
        checkPrefix();
        to = Objects.requireNonNull(suffix, "suffix");
        toKind = kind;
        return this;
    }

    private void checkPrefix() {
        if (prefix == null) {
            throw new IllegalArgumentException("suffixes lie within a prefix; begin with Range.ofPrefix");
        }
    }

    /** From the last item to the first. */
    public Range reversed() {
        isReverse = true;
        return this;
    }

    /** Keys without their values, which are then not read. */
    public Range keysOnly() {
        keysOnly = true;
        return this;
    }
}
