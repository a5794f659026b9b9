"""Files that are in a store already: links to them, and bytes that several entries share."""
