"""Pages of pipelines: runs, gates, ingestions."""
