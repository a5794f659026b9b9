"""DAGs that use the operators on a real lake."""
