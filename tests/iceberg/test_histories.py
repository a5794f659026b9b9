"""Histories of two clients of one branch do what a dict does, with tables that have only properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table.update import SetPropertiesUpdate

from graveler.tables.landing import TableCommit
from graveler.tables.namespaces import Tables
from tests.harness.iceberg import SCHEMA
from tests.harness.worlds import ScriptedWorld

NAMES = [("a",), ("b",), ("a", "n"), ("a", "t"), ("a", "u"), ("b", "t"), ("a", "n", "t")]
KINDS = (
    "create namespace",
    "drop namespace",
    "create",
    "drop",
    "rename",
    "set",
    "stage",
    "commit",
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.integers(0, 1), st.sampled_from(NAMES), st.sampled_from(NAMES)
    ),
    max_size=16,
)


class Model:
    """Namespaces, and the properties of tables."""

    def __init__(self):
        self.namespaces = set()
        self.tables = {}

    def error(self, kind, name, to):
        """Return the error that an operation must have, or None."""
        if kind == "create namespace":
            above = {name[:depth] for depth in range(1, len(name) + 1)}
            taken = name in self.namespaces or above & self.tables.keys()
            return NamespaceAlreadyExistsError if taken else None
        if kind == "drop namespace":
            if name not in self.namespaces:
                return NoSuchNamespaceError
            every = self.namespaces | self.tables.keys()
            inside = [each for each in every if each[: len(name)] == name and each != name]
            return NamespaceNotEmptyError if inside else None
        if kind == "create":
            return self._vacant(name)
        if kind in ("drop", "set", "rename") and name not in self.tables:
            return NoSuchTableError
        return self._vacant(to) if kind == "rename" else None

    def _vacant(self, name):
        if len(name) < 2:
            return ValueError
        if name[:-1] not in self.namespaces:
            return NoSuchNamespaceError
        there = name in self.namespaces or name in self.tables
        return TableAlreadyExistsError if there else None

    def apply(self, kind, name, to):
        if kind == "create namespace":
            self.namespaces |= {name[:depth] for depth in range(1, len(name) + 1)}
        elif kind == "drop namespace":
            self.namespaces.remove(name)
        elif kind == "create":
            self.tables[name] = 0
        elif kind == "drop":
            del self.tables[name]
        elif kind == "rename":
            self.tables[to] = self.tables.pop(name)
        elif kind == "set":
            self.tables[name] += 1


def operate(tables, branch, kind, name, to):
    if kind == "create namespace":
        tables.create_namespace(name, {})
    elif kind == "drop namespace":
        tables.drop_namespace(name)
    elif kind == "create":
        tables.create(name, SCHEMA)
    elif kind == "drop":
        tables.drop(name)
    elif kind == "rename":
        tables.rename(name, to)
    elif kind == "set":
        count = int(tables.load(name).metadata.properties.get("count", "0"))
        update = SetPropertiesUpdate(updates={"count": str(count + 1)})
        tables.commit([TableCommit(name, (), (update,))])
    elif kind == "stage":
        branch.put("z/staged", str(name).encode())
    else:
        branch.commit("staged", allow_empty=True)


def found(tables):
    """Return the namespaces and the tables with their counts, as a client lists them."""
    namespaces, counts, above = set(), {}, [()]
    while above:
        parent = above.pop()
        names = tables.namespaces(parent)
        namespaces |= {*names}
        above += names
        for name in names:
            for table in tables.tables(name):
                properties = tables.load(table).metadata.properties
                counts[table] = int(properties.get("count", "0"))
    return namespaces, counts


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_two_clients_do_what_a_dict_does(steps):
    world, model = ScriptedWorld(), Model()
    branches = [world.repo(scripted=False).branch("main") for _ in range(2)]
    clients = [Tables(branch) for branch in branches]
    for kind, who, name, to in steps:
        error = model.error(kind, name, to)
        if error is None:
            operate(clients[who], branches[who], kind, name, to)
            model.apply(kind, name, to)
        else:
            with pytest.raises(error):
                operate(clients[who], branches[who], kind, name, to)
        assert found(clients[1 - who]) == (model.namespaces, model.tables)
