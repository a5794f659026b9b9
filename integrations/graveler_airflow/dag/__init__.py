"""From Airflow's tasks to the run: its handle, its steps, which tasks count as done."""
