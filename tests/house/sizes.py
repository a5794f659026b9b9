"""Files, lines, folders and import cycles."""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_SMALL = 60
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
    crowded = sum(number > 16 for number in folders.values())
    return {
        "files": f"{len(files)}",
        "lines": f"{sum(lines.values())}",
        "code lines": f"{sum(code_lines(text) for text in texts.values())}",
        "files under 60 lines": f"{sum(number < _SMALL for number in lines.values())}",
        "largest folder": f"{count} files, {largest.relative_to(root)}",
        "folders over 16 files": f"{crowded}",
    }


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
    modules = {_module_name(root, file): file for file in files}
    graph = {name: set(_imports(file, name, modules)) - {name} for name, file in modules.items()}
    return sorted(sorted(group) for group in _components(graph) if len(group) > 1)


def _module_name(root: Path, file: Path) -> str:
    parts = list(file.relative_to(root).with_suffix("").parts)
    if parts[0] == "integrations":
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(file: Path, module: str, modules: dict[str, Path]) -> Iterator[str]:
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
