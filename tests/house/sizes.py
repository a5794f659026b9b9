"""Files, lines, folders and imports."""

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_SMALL = 60
_JOINED = 80
_APART = re.compile(r"\.(drivers|verbs|operators)\.|^graveler\.cli\.main$")
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def product_files(root: Path) -> list[Path]:
    """Return the Python files of the product."""
    return sorted(
        file for top in ("graveler", "integrations") for file in (root / top).rglob("*.py")
    )


def sizes(root: Path, files: list[Path]) -> dict[str, str]:
    """Return the figures of the product by their names."""
    texts = {file: file.read_text("utf-8") for file in files}
    lines = {file: len(text.splitlines()) for file, text in texts.items()}
    folders = Counter(file.parent for file in files)
    largest, count = folders.most_common(1)[0]
    longest = max(lines, key=lambda file: lines[file])
    crowded = sum(number > 16 for number in folders.values())
    return {
        "files": f"{len(files)}",
        "lines": f"{sum(lines.values())}",
        "code lines": f"{sum(code_lines(text) for text in texts.values())}",
        "files under 60 lines": f"{sum(number < _SMALL for number in lines.values())}",
        "longest file": f"{lines[longest]} lines, {longest.relative_to(root)}",
        "largest folder": f"{count} files, {largest.relative_to(root)}",
        "folders over 16 files": f"{crowded}",
        "suppressions": f"{sum(text.count('# noqa') for text in texts.values())}",
        "Final": f"{sum(len(re.findall(': Final', text)) for text in texts.values())}",
        "small, of one importer": f"{len(small_modules(root, files))}",
        "imports up": f"{len(arrows(root, files))}",
    }


def rooms(root: Path, files: list[Path]) -> dict[str, int]:
    """Return the code lines of each room: a package of graveler, an integration, a module."""
    count: Counter[str] = Counter()
    for file in files:
        count["/".join(file.relative_to(root).parts[:2])] += code_lines(file.read_text("utf-8"))
    return dict(count)


def small_modules(root: Path, files: list[Path]) -> list[str]:
    """Return the modules of fewer than 80 lines that only one module imports.

    Drivers, verbs and operators are found by a table, and the program by its name, so they count as
    apart.
    """
    graph = _graph(root, files)
    importers = Counter(name for found in graph.values() for name in found)
    return sorted(
        name
        for file in files
        if file.name != "__init__.py"
        and len(file.read_text("utf-8").splitlines()) < _JOINED
        and importers[name := _module_name(root, file)] == 1
        and not _APART.search(name)
    )


def arrows(root: Path, files: list[Path]) -> list[str]:
    """Return the imports from a room to one above it, also those in functions and annotations."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    floors = next(one for one in contracts["contracts"] if one["id"] == "floors")["layers"]
    rank = {room: at for at, floor in enumerate(floors) for room in re.findall(r"\w+", floor)}
    found = []
    for name, others in _graph(root, files).items():
        for other in others:
            below, above = (
                rank.get(one.partition(".")[2].partition(".")[0]) for one in (name, other)
            )
            apart = name.split(".")[:2] != other.split(".")[:2] and name.startswith("graveler.")
            if below is not None and above is not None and apart and above <= below:
                found.append(f"{name} -> {other}")
    return sorted(found)


@cache
def code_lines(text: str) -> int:
    """Return the number of lines of code, without docstrings, comments and blank lines."""
    held = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        for statement in getattr(node, "body", None) or () if _has_body(node) else ():
            if _is_text(statement):
                held.difference_update(range(statement.lineno, statement.end_lineno + 1))
    return len(held)


def _has_body(node: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a docstring of a module, a function or an attribute."""
    value = getattr(node, "value", None)
    return (
        isinstance(node, ast.Expr)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    )


def circles(root: Path, files: list[Path]) -> list[list[str]]:
    """Return the groups of modules that import each other, also in annotations and functions."""
    graph = _graph(root, files)
    return sorted(sorted(group) for group in _components(graph) if len(group) > 1)


def _graph(root: Path, files: list[Path]) -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    return _graph_of(root, tuple(files))


@cache
def _graph_of(root: Path, files: tuple[Path, ...]) -> dict[str, set[str]]:
    modules = {_module_name(root, file): file for file in files}
    return {name: set(_imports(file, modules)) - {name} for name, file in modules.items()}


def _module_name(root: Path, file: Path) -> str:
    parts = list(file.relative_to(root).with_suffix("").parts)
    if parts[0] == "integrations":
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(file: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules:
                    yield whole
                elif node.module in modules:
                    yield node.module


def _components(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield the strongly connected components (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for start, first in graph.items():
        if start in index:
            continue
        work = [(start, iter(sorted(first)))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            name, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = stack.index(name)
                    yield set(stack[at:])
                    del stack[at:]
