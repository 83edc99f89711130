/** State stores of Kafka Streams on Siltstone. */
package io.siltstone.kafka.streams;
