"""graveler as an fsspec filesystem: ``grav://repository/ref/path``.

::

    import pandas as pd

    frame = pd.read_parquet("grav://flights/main/input/2013/01/01/05:00/", storage_options={"lake": "./lake"})

pandas, polars, pyarrow, DuckDB and Dask take such addresses as they take those of any other store:
every ref can be read, a branch can be written, and a transaction is one commit.
"""

from graveler.fs.address import storage_options, url
from graveler.fs.filesystem import GravelerFileSystem
from graveler.fs.transaction import CommitTransaction
from graveler.lake.shared import close_lakes, share_lake

__all__ = [
    "CommitTransaction",
    "GravelerFileSystem",
    "close_lakes",
    "share_lake",
    "storage_options",
    "url",
]
