package io.siltstone;

import java.time.Duration;
import java.util.Objects;

/** Checks of what callers give, with its name. */
final class Arguments {
    private Arguments() {}

    static long notNegative(long number, String name) {
        if (number < 0) {
            throw new IllegalArgumentException(name + " is negative: " + number);
        }
        return number;
    }

    /**
     * Returns a text that has characters alone. Half of a surrogate pair is none: the store would write another character
     * in its place, and two names would be one.
     */
    static String text(String text, String name) {
        Objects.requireNonNull(text, name);
        for (int place = 0; place < text.length(); place++) {
            if (!Character.isSurrogate(text.charAt(place))) {
                continue;
            }
            if (!Character.isSurrogatePair(text.charAt(place),
                    place + 1 < text.length() ? text.charAt(place + 1) : 'x')) {
                throw new IllegalArgumentException(String.format(
                        "%s has half of a surrogate pair at %d, \\u%04X, which is no character", name, place,
                        (int) text.charAt(place)));
            }
            place++;
        }
        return text;
    }

    /** Returns a text as {@link #text} does, or null. */
    static String textOrNull(String text, String name) {
        return text == null ? null : text(text, name);
    }

    /** Returns whole milliseconds, of which a part of one makes one, and as many as there are for the longest times. */
    static long millis(Duration time, String name) {
        if (Objects.requireNonNull(time, name).isNegative()) {
            throw new IllegalArgumentException(name + " is negative: " + time);
        }
        try {
            return time.plusNanos(999_999).toMillis();
        } catch (ArithmeticException e) {
            return Long.MAX_VALUE;
        }
    }
}
