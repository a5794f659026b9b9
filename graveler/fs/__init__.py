"""graveler as an fsspec filesystem: ``grav://repository/ref/path``.

::

    import pandas as pd

    frame = pd.read_parquet("grav://flights/main/input/2013/01/01/05:00/", storage_options={"lake": "./lake"})

pandas, polars, pyarrow, DuckDB and Dask accept such addresses like those of any other store. Every
ref can be read, a branch can be written, and a transaction is one commit.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.fs.address import storage_options as storage_options
    from graveler.fs.address import url as url
    from graveler.fs.filesystem import GravelerFileSystem as GravelerFileSystem
    from graveler.fs.transaction import CommitTransaction as CommitTransaction
    from graveler.lake.shared import close_lakes as close_lakes
    from graveler.lake.shared import share_lake as share_lake

# addresses work without fsspec
__getattr__, __dir__, __all__ = lazy_names(__name__)
