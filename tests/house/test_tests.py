"""Rules for every test: short names, and no imports from other tests."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 60


def functions():
    """Yield the files of tests, each with the names of its tests."""
    for file in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        yield (
            file.relative_to(ROOT),
            [
                node.name
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            ],
        )


def test_names_of_tests_have_at_most_sixty_characters():
    named = dict(functions())
    assert sum(map(len, named.values())) > 1_000
    assert [
        f"{file}: {n}" for file, names in named.items() for n in names if len(n) > LONGEST
    ] == []


def test_no_test_module_imports_another_one():
    pattern = re.compile(
        r"^\s*(?:from tests\.[\w.]*\btest_|from tests\.[\w.]+ import .*\btest_)", re.MULTILINE
    )
    files = list((ROOT / "tests").rglob("*.py"))
    assert len(files) > 300
    assert [str(file) for file in files if pattern.search(file.read_text("utf-8"))] == []


def test_spark_is_used_below_real_and_long_only():
    """Only there may tests start a JVM by the fixture. graveler.spark is tested without a JVM."""
    names = r"import pyspark|from pyspark|from graveler\.spark import"
    pattern = re.compile(rf"^(?:{names})\b", re.MULTILINE)
    files = [
        file
        for file in (ROOT / "tests").rglob("test_*.py")
        if {"real", "long"}.isdisjoint(file.relative_to(ROOT).parts)
    ]
    assert [str(file) for file in files if pattern.search(file.read_text("utf-8"))] == []
