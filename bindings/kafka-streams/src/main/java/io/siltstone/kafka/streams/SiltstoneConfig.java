package io.siltstone.kafka.streams;

import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What an application may say in its configuration beside Kafka's keys. All of it holds for the whole process: the first
 * store that opens decides, and others that say something else get a warning.
 */
public final class SiltstoneConfig {
    /** Bytes of memory for all stores of the process together: {@value}. 1 MiB to 64 TiB; 256 MiB where it is not said. */
    public static final String MEMORY_BYTES = "siltstone.memory.bytes";
    /** Threads that compact for all stores of the process: {@value}. 1 to 64; 2 where it is not said. */
    public static final String THREADS = "siltstone.threads";
    /** Open files kept for reading, of all stores of the process: {@value}. 8 at least; 512 where it is not said. */
    public static final String MAX_OPEN_FILES = "siltstone.max.open.files";

    private static final long MEBIBYTE = 1L << 20;
    /** All of them are longs, which Kafka reads from an Integer and from text too; the ranges say what fits. */
    private static final ConfigDef DEFINITION = new ConfigDef()
            .define(MEMORY_BYTES, Type.LONG, 256 * MEBIBYTE, Range.between(MEBIBYTE, 1L << 46), Importance.HIGH,
                    "Bytes of memory for all stores of the process together")
            .define(THREADS, Type.LONG, 2, Range.between(1, 64), Importance.LOW,
                    "Threads that compact for all stores of the process")
            .define(MAX_OPEN_FILES, Type.LONG, 512, Range.between(8, Integer.MAX_VALUE), Importance.LOW,
                    "Open files kept for reading, of all stores of the process");

    private static final String PREFIX = "siltstone.";
    /** Characters by which a key may differ from the one that is meant. */
    private static final int MOST_MISSPELT = 5;
    private static final Logger LOG = LoggerFactory.getLogger(SiltstoneConfig.class);
    /** Keys that somebody was warned of: each application asks for each of its tasks. */
    private static final Set<String> WARNED_OF = ConcurrentHashMap.newKeySet();

    private SiltstoneConfig() {}

    /** Warns, once, of keys that begin as these do and are none: mostly one is misspelt, and says nothing to anybody. */
    static void warnOfUnknown(Map<String, ?> configs) {
        for (String key : configs.keySet()) {
            if (key.startsWith(PREFIX) && !DEFINITION.names().contains(key) && WARNED_OF.add(key)) {
                String nearest = nearest(key);
                boolean isNear = distance(key, nearest) <= MOST_MISSPELT;
                LOG.warn("There is no key {}, so it is left out; {}all of them are {}", key,
                        isNear ? "the nearest one is " + nearest + "; " : "",
                        new TreeSet<>(DEFINITION.names()));
            }
        }
    }

    private static String nearest(String key) {
        return DEFINITION.names().stream().min(Comparator.<String>comparingInt(known -> distance(key, known))
                .thenComparing(Comparator.naturalOrder())).orElseThrow();
    }

    /** How many characters have to be changed, added or removed to make one text the other. */
    private static int distance(String from, String to) {
        int[] above = new int[to.length() + 1];
        for (int column = 0; column <= to.length(); column++) {
            above[column] = column;
        }
        for (int row = 1; row <= from.length(); row++) {
            int[] current = new int[to.length() + 1];
            current[0] = row;
            for (int column = 1; column <= to.length(); column++) {
                int changed = above[column - 1] + (from.charAt(row - 1) == to.charAt(column - 1) ? 0 : 1);
                current[column] = Math.min(changed, 1 + Math.min(above[column], current[column - 1]));
            }
            above = current;
        }
        return above[to.length()];
    }

    record Values(long memoryBytes, int threads, int maxOpenFiles) {
        /** Reads them; a {@link org.apache.kafka.common.config.ConfigException} names the key that can't be used. */
        static Values of(Map<String, ?> configs) {
            warnOfUnknown(configs);
            Map<String, Object> given = new HashMap<>(configs);
            // Kafka reads no other numbers as they are. Their text is one where the number is whole and fits.
            for (String key : DEFINITION.names()) {
                given.computeIfPresent(key, (name, value) -> value instanceof Number number
                        && !(value instanceof Integer || value instanceof Long) ? number.toString() : value);
            }
            Map<String, Object> values = DEFINITION.parse(given);
            return new Values((Long) values.get(MEMORY_BYTES), Math.toIntExact((Long) values.get(THREADS)),
                    Math.toIntExact((Long) values.get(MAX_OPEN_FILES)));
        }

        @Override
        public String toString() {
            return (memoryBytes >> 20) + " MiB of memory (" + MEMORY_BYTES + "), " + threads + " threads that compact ("
                    + THREADS + ") and " + maxOpenFiles + " open files (" + MAX_OPEN_FILES + ")";
        }
    }
}
