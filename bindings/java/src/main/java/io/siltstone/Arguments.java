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
