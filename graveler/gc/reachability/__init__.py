"""What the refs, runs and staged writes of a repository reach, and what else its storage holds."""
