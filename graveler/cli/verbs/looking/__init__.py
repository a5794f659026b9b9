"""The verbs that look at trees, files and history."""
