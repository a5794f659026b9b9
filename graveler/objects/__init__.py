"""Object stores: immutable objects below a root, in memory, in a folder or on S3."""
