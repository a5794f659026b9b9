"""Random histories of runs, rollbacks and ingestion, judged by a model of what must stand."""
