"""Tests that need a real orchestrator, a JVM, database servers, or many killed processes.

``make test-real`` runs this folder, and ``make test`` runs all others.
"""
