"""Tests with real components that take long: each folder has a command of its own.

``make test-spark`` runs `spark`, after `tests/spark` and `tests/real/spark`, and ``make test-connect`` the same on
Spark Connect. ``make test-cluster``, ``test-chaos``, ``test-bench``, ``test-s3a`` and ``test-delta`` run the others.
"""
