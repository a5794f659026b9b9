"""The steps of a run: one try of a step, and the history of those that joined."""
