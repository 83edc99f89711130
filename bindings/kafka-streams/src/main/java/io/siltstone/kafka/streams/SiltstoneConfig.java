package io.siltstone.kafka.streams;

import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/**
 * What an application may say in its configuration beside Kafka's keys. All of it holds for the whole process: the first
 * store that opens decides, and others that say something else get a warning.
 */
public final class SiltstoneConfig {
    /** Bytes of memory for all stores of the process together: {@value}. 256 MiB where it is not said. */
    public static final String MEMORY_BYTES = "siltstone.memory.bytes";
    /** Threads that compact for all stores of the process: {@value}. 2 where it is not said. */
    public static final String THREADS = "siltstone.threads";
    /** Open files kept for reading, of all stores of the process: {@value}. 512 where it is not said. */
    public static final String MAX_OPEN_FILES = "siltstone.max.open.files";

    private static final long DEFAULT_MEMORY_BYTES = 256L << 20;

    private SiltstoneConfig() {}

    record Values(long memoryBytes, int threads, int maxOpenFiles) {
        static Values of(Map<String, ?> configs) {
            return new Values(number(configs, MEMORY_BYTES, DEFAULT_MEMORY_BYTES),
                    Math.toIntExact(number(configs, THREADS, 2)),
                    Math.toIntExact(number(configs, MAX_OPEN_FILES, 512)));
        }

        private static long number(Map<String, ?> configs, String key, long otherwise) {
            Object value = configs.get(key);
            if (value == null) {
                return otherwise;
            }
            try {
                return Long.parseLong(value.toString().trim());
            } catch (NumberFormatException e) {
                throw new ConfigException(key, value, "is to be a whole number");
            }
        }
    }
}
