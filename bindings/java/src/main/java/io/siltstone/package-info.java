/** Siltstone, a key-value store in your process for very many small items with little memory. */
package io.siltstone;
