"""The rollback of a published run, the runs that read its output, and the guard of publishes after a revert."""
