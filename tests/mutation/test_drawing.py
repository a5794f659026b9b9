"""The drawn faults are valid Python, differ from the product, and repeat by their seed."""

import ast
from pathlib import Path

import pytest

from tests.mutation.drawing import draw, faults_of

_EVERY_KIND = """\
def function(é, b):
    if é == 1 and b:
        raise ValueError(f"{é + 1}")
    b += 2
    print(not é)
    if (c := b) is None:
        return c
    return é if b < 0 else (b - é)
"""


def test_a_fault_of_each_kind(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(_EVERY_KIND)
    changed = [fault.applied(_EVERY_KIND).splitlines() for fault in faults_of(str(path))]
    lines = {
        line.strip()
        for text in changed
        for line, old in zip(text, _EVERY_KIND.splitlines(), strict=True)
        if line != old
    }
    assert lines == {
        "if not (é == 1 and b):",
        "if é != 1 and b:",
        "if é == 2 and b:",
        "if (é == 1) or (b):",
        "pass",
        "b -= 2",
        "b += 3",
        "print(é)",
        "if not ((c := b) is None):",
        "if (c := b) is not None:",
        "return None",
        "return (b - é) if b < 0 else (é)",
        "return é if b <= 0 else (b - é)",
        "return é if b < 1 else (b - é)",
        "return é if b < 0 else (b + é)",
    }


@pytest.mark.parametrize("seed", range(3))
def test_drawn_faults_are_other_programs(seed):
    drawn = draw(seed, 100)
    assert len({(fault.path, fault.line) for fault in drawn}) == len(drawn) == 100
    for fault in drawn:
        source = Path(fault.path).read_text()
        assert ast.dump(ast.parse(fault.applied(source))) != ast.dump(ast.parse(source))


def test_a_seed_draws_the_same_faults_again():
    assert draw(7, 20) == draw(7, 20) != draw(8, 20)
