"""A lake as a file system for Hadoop's clients: ``webhdfs://host:port/repository/ref/path``.

::

    with Gateway(lake, token="…") as gateway:
        gateway.address  # webhdfs://127.0.0.1:14000/

Spark reads and writes such addresses with the client that it brings, unchanged and without a
further package: every ref can be read, a branch can be written. The gateway speaks WebHDFS, which
is HTTP; it is a process beside the lake, and decides nothing about versions.
"""

from graveler.gateway.server import Gateway
from graveler.gateway.tokens import new_token, spark_settings

__all__ = ["Gateway", "new_token", "spark_settings"]
