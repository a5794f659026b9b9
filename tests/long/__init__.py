"""Long tests with real components. Each folder has its own command.

``make test-spark`` runs `spark`, after `tests/spark` and `tests/real/spark`, and
``make test-connect`` runs the same on Spark Connect. ``make test-cluster``, ``test-chaos``,
``test-bench``, ``test-s3a``, ``test-delta`` and ``test-iceberg-kit`` run the others.
"""
