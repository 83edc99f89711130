package io.siltstone;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Random;
import java.util.stream.Stream;

/**
 * Loads a keyspace in byte order, of one group as those of Kafka's stores are, with items of 9 + 100 bytes in no order.
 * Arguments: {@code put} (batches through log and write buffers) or {@code ingest} (bulk builds); then items, and items
 * of each batch.
 */
public final class LoadBench {
    private static final int VALUE_BYTES = 100;

    private LoadBench() {}

    public static void main(String[] arguments) throws Exception {
        boolean isBulk = arguments[0].equals("ingest");
        int items = Integer.parseInt(arguments[1]);
        int together = Integer.parseInt(arguments[2]);
        Path directory = Files.createTempDirectory("siltstone-load");
        try (Resources shared = new Resources(320L << 20, 2, 512); Store store = Store.open(directory.resolve("db"),
                new Options().resources(shared).maxLogBytes(64 << 20))) {
            Keyspace keyspace = store.keyspace("items", new KeyspaceOptions().schema("fixed:1"));
            Random random = new Random(1);
            byte[] value = new byte[VALUE_BYTES];
            long written = written();
            long begun = System.nanoTime();
            Batch batch = new Batch();
            for (int item = 0; item < items; item++) {
                random.nextBytes(value);
                byte[] key = ByteBuffer.allocate(9).put((byte) 'k').putLong(item * 0x9E3779B97F4A7C15L).array();
                batch.put(keyspace, key, value);
                if ((item + 1) % together == 0 || item + 1 == items) {
                    if (isBulk) {
                        keyspace.ingest(batch);
                    } else {
                        store.write(batch);
                    }
                    batch.clear();
                }
            }
            double loaded = (System.nanoTime() - begun) / 1e9;
            store.flush();
            store.waitUntilIdle();
            double idle = (System.nanoTime() - begun) / 1e9;
            double amplification = (written() - written) / ((double) items * (Long.BYTES + VALUE_BYTES));
            System.out.printf("%s of %d: loaded in %.2f s, idle after %.2f s, written %.2f times, %d items%n",
                    arguments[0], together, loaded, idle, amplification, keyspace.approximateLength());
        } finally {
            try (Stream<Path> files = Files.walk(directory)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }

    private static long written() throws Exception {
        return Files.readAllLines(Path.of("/proc/self/io")).stream().filter(line -> line.startsWith("wchar:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).findFirst().orElseThrow();
    }
}
