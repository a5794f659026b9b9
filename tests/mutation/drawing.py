"""The faults of a source file, and a draw of them weighted by lines."""

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path

ROOTS = ("graveler", "integrations")

_COMPARISONS = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*"}


@dataclass(frozen=True)
class Fault:
    """One change of one place.

    Attributes:
        path: The file, relative to the repository.
        line: The line of the place, from 1.
        start: The first character of the replaced text, from 0.
        stop: The character after it.
        text: The text that stands there instead.
        statement: The line on which the statement of the place begins.
    """

    path: str
    line: int
    start: int
    stop: int
    text: str
    statement: int

    def applied(self, source: str) -> str:
        """Return the source with this fault."""
        return source[: self.start] + self.text + source[self.stop :]

    def described(self, source: str) -> str:
        """Return the place, the text of it, and the new text."""
        old = " ".join(source[self.start : self.stop].split())
        return f"{self.path}:{self.line} `{old[:60]}` -> `{self.text[:60]}`"


class _Places:
    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._lines = [f"{line}\n".encode() for line in source.split("\n")]
        self._starts = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, stop = self.span(node)
        text = self._source[start:stop]
        return f"({text})" if isinstance(node, ast.NamedExpr | ast.Lambda) else text

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._at(node.lineno, node.col_offset),
            self._at(node.end_lineno, node.end_col_offset),
        )

    def faults(self) -> Iterator[Fault]:
        for statement in _statements(ast.parse(self._source)):
            for node, text in self._changes(statement):
                start, stop = self.span(node)
                yield Fault(self._path, node.lineno, start, stop, text, statement.lineno)

    def _changes(self, statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        match statement:
            case ast.Expr(ast.Call() | ast.Await()) | ast.Raise():
                yield statement, "pass"
            case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
                yield value, "None"
            case ast.If(ast.Name("TYPE_CHECKING")):
                return
            case ast.If(test) | ast.While(test):
                yield test, f"not ({self.text(test)})"
            case ast.AugAssign(_, ast.Add()):
                yield statement, self.text(statement).replace("+=", "-=", 1)
            case _:
                pass
        for node in _expressions(statement):
            yield from ((node, text) for text in self._expression(node))

    def _side(self, node: ast.expr) -> str:
        return f"({self.text(node)})" if isinstance(node, ast.BoolOp) else self.text(node)

    def _expression(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Compare(left, [operator], [right]):
                sign = _COMPARISONS[type(operator)]
                yield f"{self._side(left)} {sign} {self._side(right)}"
            case ast.BoolOp(operator, [first, *others]):
                word = " or " if isinstance(operator, ast.And) else " and "
                yield word.join(f"({self.text(value)})" for value in [first, *others])
            case ast.UnaryOp(ast.Not(), value):
                yield self.text(value)
            case ast.IfExp(test, body, other):
                yield f"({self.text(other)}) if {self.text(test)} else ({self.text(body)})"
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                yield f"{self.text(left)} {_ARITHMETIC[type(operator)]} {self.text(right)}"
            case ast.Constant(bool() as value):
                yield str(not value)
            case ast.Constant(int() as value):
                yield str(value + 1)
            case _:
                return


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            yield node


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement itself, not of its inner statements or annotations."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    held = [
        child
        for name, field in ast.iter_fields(statement)
        if name != "annotation"
        for child in (field if isinstance(field, list) else [field])
    ]
    while held:
        node = held.pop()
        if isinstance(node, ast.expr):
            yield node
        if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr | ast.stmt):
            held += ast.iter_child_nodes(node)


@cache
def faults_of(path: str) -> list[Fault]:
    """Return all faults of a file."""
    found = _Places(path, Path(path).read_text()).faults()
    return sorted(set(found), key=lambda fault: (fault.line, fault.start, fault.text))


def draw(seed: int, count: int, below: Sequence[str] = ROOTS) -> list[Fault]:
    """Return faults of different lines; each line with a fault is as likely as any other."""
    lines = [
        list(faults)
        for root in below
        for path in sorted(Path(root).rglob("*.py"))
        for _, faults in groupby(faults_of(str(path)), lambda fault: fault.line)
    ]
    chance = random.Random(seed)
    return [chance.choice(faults) for faults in chance.sample(lines, min(count, len(lines)))]
