"""The private names of Dagster that the integration uses, which a new version may move."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import dagster_graveler

NAMES = sorted(
    {
        (node.module, alias.name)
        for file in Path(dagster_graveler.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster._")
        for alias in node.names
    }
)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda text: text)
def test_a_private_name_of_dagster_is_where_it_was(module, name):
    assert hasattr(import_module(module), name)


def test_the_private_names_are_found():
    assert len(NAMES) > 1
