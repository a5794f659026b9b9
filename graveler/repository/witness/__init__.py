"""The witness: whether the key-value store and the storage belong together."""
