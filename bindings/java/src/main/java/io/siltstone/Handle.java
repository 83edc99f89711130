package io.siltstone;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/** A number of the native library, let go of once: by its owner, or when the owner is found unreachable. */
final class Handle {
    private static final Cleaner CLEANER = Cleaner.create();

    /** What the cleaner holds; it must not know the owner, or that would never be unreachable. */
    private record Number(AtomicLong value, LongConsumer release) implements Runnable {
        @Override
        public void run() {
            long number = value.getAndSet(0);
            if (number != 0) {
                release.accept(number);
            }
        }
    }

    private final String what;
    private final AtomicLong number;
    private final Cleaner.Cleanable cleanable;

    Handle(Object owner, String what, long number, LongConsumer release) {
        this.what = what;
        this.number = new AtomicLong(number);
        this.cleanable = CLEANER.register(owner, new Number(this.number, release));
    }

    /** The number; an {@link IllegalStateException} where it was let go of. */
    long get() {
        long value = number.get();
        if (value == 0) {
            throw new IllegalStateException("the " + what + " is closed");
        }
        return value;
    }

    boolean isOpen() {
        return number.get() != 0;
    }

    /** Takes the number, for an owner that lets go of it itself; 0 where that was done before. */
    long take() {
        long taken = number.getAndSet(0);
        cleanable.clean();
        return taken;
    }

    void close() {
        cleanable.clean();
    }
}
