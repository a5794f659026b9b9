"""A newcomer follows a guide word for word, on a machine that has nothing."""
