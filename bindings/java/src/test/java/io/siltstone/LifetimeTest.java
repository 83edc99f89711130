package io.siltstone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What happens to what is closed, to what is forgotten, and to memory. */
class LifetimeTest {
    @TempDir
    Path directory;

    private static final byte[] KEY = "key".getBytes(StandardCharsets.UTF_8);

    private Store open(String name) throws SiltstoneException {
        return Store.open(directory.resolve(name), new Options().memoryBytes(8 << 20));
    }

    @Test
    void everyCallAfterCloseIsAnIllegalState() throws Exception {
        Store store = open("db");
        Keyspace items = store.keyspace("items");
        items.put(KEY, KEY);
        Snapshot snapshot = store.snapshot();
        KeyIterator walked = items.iterate();
        Batch batch = new Batch().put(items, KEY, KEY);
        store.close();
        store.close();
        assertFalse(store.isOpen());
        assertThrows(IllegalStateException.class, () -> store.keyspace("items"));
        assertThrows(IllegalStateException.class, store::keyspaces);
        assertThrows(IllegalStateException.class, store::snapshot);
        assertThrows(IllegalStateException.class, store::flush);
        assertThrows(IllegalStateException.class, store::statsJson);
        assertThrows(IllegalStateException.class, () -> store.write(batch));
        assertThrows(IllegalStateException.class, () -> items.get(KEY));
        assertThrows(IllegalStateException.class, () -> items.put(KEY, KEY));
        assertThrows(IllegalStateException.class, () -> items.iterate());
        snapshot.close();
        assertThrows(IllegalStateException.class, () -> snapshot.get(items, KEY));
        walked.close();
        assertThrows(IllegalStateException.class, walked::next);
        items.close();
        items.close();
        assertThrows(IllegalStateException.class, () -> items.get(KEY));
        try (Store again = open("db")) {
            assertTrue(again.keyspace("items").contains(KEY));
        }
    }

    /** Threads use a store in every way while another closes it: each call works or says that it is closed. */
    @Test
    void closingUnderManyThreadsHarmsNothing() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        try {
            for (int round = 0; round < 20; round++) {
                Store store = open("db" + round);
                Keyspace items = store.keyspace("items");
                CountDownLatch begun = new CountDownLatch(5);
                List<Future<Integer>> users = new ArrayList<>();
                for (int user = 0; user < 5; user++) {
                    int kind = user;
                    users.add(pool.submit(() -> use(store, items, kind, begun)));
                }
                begun.await();
                store.close();
                for (Future<Integer> user : users) {
                    assertTrue(user.get() > 0);
                }
                items.close();
            }
        } finally {
            pool.shutdownNow();
        }
    }

    /** Returns how many calls worked before the store was closed. */
    private static int use(Store store, Keyspace items, int kind, CountDownLatch begun) throws Exception {
        int calls = 0;
        try {
            while (true) {
                byte[] key = ("key" + calls % 100).getBytes(StandardCharsets.UTF_8);
                switch (kind) {
                    case 0 -> items.put(key, key);
                    case 1 -> items.get(key);
                    case 2 -> store.write(new Batch(64).put(items, key, key));
                    case 3 -> {
                        try (KeyIterator walked = items.iterate()) {
                            while (walked.next()) {
                                walked.key();
                            }
                        }
                    }
                    default -> {
                        try (Snapshot snapshot = store.snapshot()) {
                            snapshot.get(items, key);
                        }
                    }
                }
                if (++calls == 10) {
                    begun.countDown();
                }
            }
        } catch (IllegalStateException closed) {
            return calls;
        }
    }

    /** What nobody closes is let go of once nobody can reach it. */
    @Test
    void whatIsForgottenIsLetGoOf() throws Exception {
        try (Store store = open("db")) {
            Keyspace items = store.keyspace("items");
            items.put(KEY, KEY);
            long before = Store.openHandles();
            for (int i = 0; i < 200; i++) {
                store.snapshot();
                items.iterate();
                store.keyspace("items");
            }
            for (int tries = 0; Store.openHandles() > before && tries < 200; tries++) {
                System.gc();
                Thread.sleep(20);
            }
            assertTrue(Store.openHandles() <= before);
            items.get(KEY);
        }
    }

    /** Opens and closes everything many times; the memory of the process stays where it was after the first rounds. */
    @Test
    void memoryStaysBounded() throws Exception {
        Path status = Path.of("/proc/self/status");
        Assumptions.assumeTrue(Files.exists(status), "resident memory is read from /proc, which only Linux has");
        long handles = Store.openHandles();
        rounds(60);
        long before = resident(status);
        rounds(240);
        long after = resident(status);
        assertEquals(handles, Store.openHandles());
        assertTrue(after < before + (48 << 10), before + " KiB became " + after);
    }

    private void rounds(int count) throws SiltstoneException {
        for (int round = 0; round < count; round++) {
            try (Store store = open("leak"); Keyspace items = store.keyspace("items");
                    Snapshot snapshot = store.snapshot()) {
                Batch batch = new Batch(1 << 10);
                for (int i = 0; i < 50; i++) {
                    batch.put(items, ("key" + i).getBytes(StandardCharsets.UTF_8), new byte[1000]);
                }
                store.write(batch);
                items.get(KEY);
                items.getMany(List.of(KEY, KEY));
                assertThrows(SiltstoneException.class, () -> items.put(new byte[0], KEY));
                try (KeyIterator walked = items.iterate()) {
                    walked.next();
                }
                snapshot.get(items, KEY);
            }
        }
    }

    private static long resident(Path status) throws Exception {
        System.gc();
        return Files.readAllLines(status).stream().filter(line -> line.startsWith("VmRSS:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).findFirst().orElseThrow();
    }
}
