"""What Dagster shows of a commit."""
