"""The package as an index offers it: built, installed and used on each supported Python."""
