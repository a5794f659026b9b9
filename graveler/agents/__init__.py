"""Sessions of agents: reads, and writes on a branch of the session, over the Model Context Protocol."""
