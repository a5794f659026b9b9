"""The run of a DAG run: its handle, its steps, and the tasks that count as done."""
