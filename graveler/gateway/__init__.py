"""A lake as a file system for Hadoop clients: ``webhdfs://host:port/repository/ref/path``.

::

    with Gateway(lake, token="…") as gateway:
        gateway.address  # webhdfs://127.0.0.1:14000/

Spark reads and writes such addresses with its own client and needs no further package. Every ref
can be read. A branch can be written. The gateway speaks WebHDFS, which is HTTP. It is a separate
process and decides nothing about versions.
"""

from graveler.gateway.server import Gateway
from graveler.gateway.tokens import new_token, spark_settings

__all__ = ["Gateway", "new_token", "spark_settings"]
