"""A gate in a process of its own: the process, its channel, and both ends of it."""
