package io.siltstone;

/** Options of a keyspace. The merge operator is fixed when it is made; {@link Keyspace#changeSchema} changes the schema. */
public final class KeyspaceOptions {
    String schema = "point";
    boolean isHashed;
    String preset;
    String mergeOperator;

    /**
     * How keys are ordered: {@code "point"} by a hash of the whole key; {@code "fixed:8"}, {@code "delim:/"},
     * {@code "suffix:8"} and others by the hash of a prefix and then by the rest of the key, so that keys that share a
     * prefix lie together.
     */
    public KeyspaceOptions schema(String text) {
        schema = Arguments.text(text, "schema");
        return this;
    }

    /** Whether keys that share a prefix are ordered by a hash of the rest, not by its bytes. */
    public KeyspaceOptions hashedSuffixes(boolean hashed) {
        isHashed = hashed;
        return this;
    }

    /** The layout, by its name. */
    public KeyspaceOptions preset(String name) {
        preset = Arguments.textOrNull(name, "preset");
        return this;
    }

    /** The operator that carries out merges, by its name, such as {@code "add"}. */
    public KeyspaceOptions mergeOperator(String name) {
        mergeOperator = Arguments.textOrNull(name, "mergeOperator");
        return this;
    }
}
