"""The graveler run of a Dagster run: its key, its steps, what may resume and publish it."""
