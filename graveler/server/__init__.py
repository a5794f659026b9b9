"""All that graveler serves: one application on one HTTP server, to which each protocol is a surface.

::

    with Server(lake, token="…") as server:
        server.address  # webhdfs://127.0.0.1:14000/

The application checks who asks, and the server limits sizes, times and connections. The surface
WebHDFS is a file system for Hadoop clients, ``webhdfs://host:port/repository/ref/path``. Spark
reads and writes such addresses with its own client and needs no further package. Every ref can be
read. A branch can be written.
"""

from graveler.server.keep.service import KeepServer
from graveler.server.server import Server, rest_catalog
from graveler.server.tokens import new_token, spark_settings

__all__ = ["KeepServer", "Server", "new_token", "rest_catalog", "spark_settings"]
