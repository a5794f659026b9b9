"""Runs: one branch each, with states, steps, publish and rollback."""
