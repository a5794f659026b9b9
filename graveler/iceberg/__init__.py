"""Apache Iceberg: every branch of a repository is a catalog of tables, and every commit a read-only one."""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.iceberg.engines import RestCatalog as RestCatalog
    from graveler.iceberg.exchange import connect as connect
    from graveler.iceberg.exchange import export as export
    from graveler.iceberg.exchange import register as register
    from graveler.iceberg.expiry import expire as expire
    from graveler.iceberg.warehouses import GravelerCatalog as GravelerCatalog
    from graveler.tables.namespaces import Tables as Tables

__getattr__, __dir__, __all__ = lazy_names(__name__)
