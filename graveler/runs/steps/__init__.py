"""Steps: a part of a run in one process, and the variables that name it to other processes."""
