package io.siltstone.kafka.streams;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Closes the engine stores that a test leaves open, before its directory is deleted, and fails the test for it where it
 * passed otherwise. The next test would share their budget. JUnit finds it by META-INF/services, for all tests.
 */
public final class NoStoreLeftOpen implements AfterEachCallback {
    @Override
    public void afterEach(ExtensionContext context) {
        List<Path> left = new ArrayList<>();
        List<ProcessorStateException> failures = new ArrayList<>();
        boolean isMore = true;
        while (isMore) {
            try {
                Path path = TaskStore.shutOne();
                isMore = path != null;
                if (isMore) {
                    left.add(path);
                }
            } catch (ProcessorStateException e) {
                failures.add(e);
            }
        }
        if (context.getExecutionException().isEmpty() && !(left.isEmpty() && failures.isEmpty())) {
            AssertionError error = new AssertionError("The test left stores open: " + left);
            failures.forEach(error::addSuppressed);
            throw error;
        }
    }
}
