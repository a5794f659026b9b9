"""The drivers of the key-value port, each loaded when a URI names it."""
