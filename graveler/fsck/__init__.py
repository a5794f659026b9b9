"""The check of everything that the refs of a repository need."""
