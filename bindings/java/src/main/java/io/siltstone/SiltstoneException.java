package io.siltstone;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/** What went wrong in a store, with the facts. The message says what can be done about it. */
public final class SiltstoneException extends IOException {
    private static final long serialVersionUID = 1L;

    /** What kind of thing went wrong. */
    public enum Kind {
        /** An argument or an option can't be used. */
        INVALID_INPUT,
        /** A key does not fit the keyspace's schema, or has no byte, or more than 65,535. */
        BAD_KEY,
        /** The keyspace is not there, or was dropped. */
        NO_KEYSPACE,
        /** The keyspace is there already, with another schema. */
        KEYSPACE_EXISTS,
        /** The file system failed. */
        IO,
        /** A file is not what was written. */
        CORRUPTION,
        /** Another process has the store open. */
        LOCKED,
        /** A position in the log is no longer kept. */
        POSITION_GONE,
        /** The disk is nearly full. */
        STORAGE_FULL,
        /** A write failed before in a way that leaves it in doubt; the store has to be opened again. */
        POISONED,
        /** The store was opened for reading only. */
        READ_ONLY,
        /** The directory holds no store. */
        NOT_A_STORE,
        /** A merge operator refused. */
        MERGE_FAILED,
        /** Something this version of the binding has no name for. */
        OTHER;

        static Kind of(String name) {
            for (Kind kind : values()) {
                if (kind.name().equals(name)) {
                    return kind;
                }
            }
            return OTHER;
        }
    }

    private final Kind kind;
    private final String path;
    private final long offset;
    private final String expected;
    private final String found;

    /** Made by the native library. */
    SiltstoneException(String kind, String message, String path, long offset, String expected, String found) {
        super(message);
        this.kind = Kind.of(kind);
        this.path = path;
        this.offset = offset;
        this.expected = expected;
        this.found = found;
    }

    /** Returns what kind of thing went wrong. */
    public Kind kind() {
        return kind;
    }

    /** Returns the file or directory that it is about. */
    public Optional<Path> path() {
        return Optional.ofNullable(path).map(Path::of);
    }

    /** Returns where in the file. */
    public OptionalLong offset() {
        return offset < 0 ? OptionalLong.empty() : OptionalLong.of(offset);
    }

    /** Returns what should have been there. */
    public Optional<String> expected() {
        return Optional.ofNullable(expected);
    }

    /** Returns what was there. */
    public Optional<String> found() {
        return Optional.ofNullable(found);
    }
}
