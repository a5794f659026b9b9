"""Spark finds the data source ``format("graveler")`` by the name of this module.

Spark imports every module with such a name for the first data source of a session, so this module is
small.
"""

from graveler.spark.metadata.source import DefaultSource

__all__ = ["DefaultSource"]
