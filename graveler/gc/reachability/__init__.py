"""The objects that refs, runs and staged writes of a repository reach, and all other objects."""
