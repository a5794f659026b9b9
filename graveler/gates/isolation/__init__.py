"""A gate in a process of its own: the process, the channel, and both ends of the channel."""
