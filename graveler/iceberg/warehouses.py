"""Warehouses: ``REPOSITORY@REF``, as clients name a catalog, and PyIceberg's catalog of one.

::

    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "flights",
        **{
            "py-catalog-impl": "graveler.iceberg.GravelerCatalog",
            "lake": "/path/of/the/lake",
            "warehouse": "flights@dev",
        },
    )

The branch of a run or a step is written with its handle, ``REPOSITORY@BRANCH:FENCE``: the branch names the
run and the step, and the fence the attempt of the run, or the try of the step.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from graveler.errors import InvalidInputError
from graveler.lake.shared import lake_at, location_of
from graveler.reads.view import Ref
from graveler.repository.branch import Branch
from graveler.tables.catalog import TreeCatalog
from graveler.tables.namespaces import Tables

if TYPE_CHECKING:
    from graveler.lake import Repository


def split_warehouse(warehouse: str) -> tuple[str, str]:
    """Return the repository of a warehouse, and its ref expression.

    Raises:
        InvalidInputError: It has another form.
    """
    repository, _, expression = warehouse.partition("@")
    if not (repository and expression):
        raise InvalidInputError(
            f"warehouse {warehouse!r}: give REPOSITORY@REF, as in flights@main: a branch, which can be "
            "written, a tag or a commit"
        )
    return repository, expression


def fixed(repository: "Repository", expression: str) -> str:
    """Return a branch, also with a fence, or a tag as it is, and otherwise the id of the commit."""
    if ":" in expression:
        return expression
    refs = repository.stores.refs
    with suppress(InvalidInputError):
        if refs.branches.find(expression) or refs.tags.find(expression):
            return expression
    return repository.ref(expression).commit.id


def view_of(repository: "Repository", expression: str) -> Branch | Ref:
    """Return a branch, which can be changed, or the ref of a tag, a commit or another expression.

    Raises:
        FencedError: The attempt of the run, or the try of the step, is over.
        NotFoundError: The ref does not exist.
    """
    branch, handle, fence = expression.partition(":")
    if handle:
        return repository.runs.branch(branch, fence)
    with suppress(InvalidInputError):
        if repository.stores.refs.branches.find(expression) is not None:
            return Branch(repository.stores, expression)
    return repository.ref(expression)


class GravelerCatalog(TreeCatalog):
    """The catalog of a branch, a tag or a commit.

    Properties: ``lake`` is the folder of the lake or its ``graveler.toml``, by default the lake that
    ``GRAVELER_LAKE`` names; ``warehouse`` is ``REPOSITORY@REF``. All others are for PyIceberg's readers
    and writers of files. The errors are those of PyIceberg and of graveler.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        lake = lake_at(location_of(properties.get("lake", "")))
        repository, expression = split_warehouse(properties.get("warehouse", ""))
        self._tables = Tables(view_of(lake.repository(repository), expression))
