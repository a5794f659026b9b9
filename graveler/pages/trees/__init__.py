"""Pages of trees: files, one file, comparisons."""
