"""Column lineage of frames: declared by an asset, or found from the plan of a Spark frame."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

_LINEAGE = "dagster/column_lineage"

_MOST_NODES = 300
"""Larger plans are left out: each node costs several calls of the JVM."""

_log = logging.getLogger(__name__)
_inputs: "WeakKeyDictionary[dg.StepExecutionContext, list[tuple[dg.AssetKey, Any]]]" = (
    WeakKeyDictionary()
)

_Origins = dict[int, frozenset[dg.TableColumnDep]]
"""The columns of assets from which a column of a plan is made, by its id."""


def keep_input(context: dg.InputContext, value: object) -> None:
    """Keep a Spark frame that a step has read, for the lineage of its result."""
    if context.has_asset_key and hasattr(value, "_jdf"):
        _inputs.setdefault(context.step_context, []).append((context.asset_key, value))


def column_lineage(
    context: dg.OutputContext, value: object, columns: Sequence[str]
) -> Mapping[str, dg.TableColumnLineage]:
    """Return Dagster's metadata of the lineage of a frame's columns.

    Dagster shows only the lineage of materializations. Lineage that the step adds itself stays.
    """
    if _LINEAGE in context.output_metadata:
        return {}
    lineage = _declared(context, columns) or _derived(context, value)
    return {_LINEAGE: lineage} if lineage else {}


def _declared(context: dg.OutputContext, columns: Sequence[str]) -> dg.TableColumnLineage | None:
    declared = (context.definition_metadata or {}).get(_LINEAGE)
    if not isinstance(declared, dg.TableColumnLineage):
        return None
    deps = declared.deps_by_column
    if missing := sorted(deps.keys() - set(columns)):
        context.log.warning(
            "column lineage of %s names columns that the frame does not have: %s; it has %s",
            context.asset_key.to_user_string(),
            ", ".join(missing),
            ", ".join(columns),
        )
    kept = {column: of for column, of in deps.items() if column in columns}
    return dg.TableColumnLineage(kept) if kept else None


def _derived(context: dg.OutputContext, value: object) -> dg.TableColumnLineage | None:
    """Return the lineage of the columns of a Spark frame; None if its plan has none."""
    frames = _inputs.get(context.step_context)
    if not frames or not hasattr(value, "_jdf"):
        return None
    from py4j.protocol import Py4JError

    try:
        origins = _origins(value, frames)
        named = {name: origins.get(number, frozenset()) for number, name in _columns(_plan(value))}
    except Py4JError:  # the classes of plans are Spark's own
        _log.warning("no column lineage: the plan of the frame cannot be read", exc_info=True)
        return None
    deps = {
        name: sorted(of, key=lambda dep: (dep.asset_key.to_user_string(), dep.column_name))
        for name, of in named.items()
        if of
    }
    return dg.TableColumnLineage(deps) if deps else None


def _origins(frame: Any, inputs: Sequence[tuple[dg.AssetKey, Any]]) -> _Origins:
    origins: _Origins = {}
    known = [(key, _plan(read), read.columns) for key, read in inputs]
    nodes = list(_nodes(_plan(frame), known))
    if len(nodes) > _MOST_NODES:
        return {}
    for node, source in reversed(nodes):  # the sources of a node come first
        if source is not None:
            key, names = source
            for (number, _), name in zip(_columns(node), names, strict=True):
                origins[number] = frozenset((dg.TableColumnDep(key, name),))
        elif node.nodeName() == "Union":
            _add_union(origins, node)
        else:
            _add_expressions(origins, node)
    return origins


def _nodes(
    plan: Any, known: Sequence[tuple[dg.AssetKey, Any, Sequence[str]]]
) -> Iterator[tuple[Any, tuple[dg.AssetKey, Sequence[str]] | None]]:
    """Yield the nodes of a plan down to its inputs, each before its sources."""
    waiting = [plan]
    for _ in range(_MOST_NODES + 1):
        if not waiting:
            return
        node = waiting.pop()
        # a frame that is joined with itself occurs twice, with different ids
        source = next(((key, names) for key, read, names in known if node.sameResult(read)), None)
        yield node, source
        if source is None:
            waiting += _items(node.children())


def _add_union(origins: _Origins, node: Any) -> None:
    tables = [[number for number, _ in _columns(child)] for child in _items(node.children())]
    for (number, _), of in zip(_columns(node), zip(*tables, strict=True), strict=True):
        origins[number] = frozenset().union(*(origins.get(other, frozenset()) for other in of))


def _add_expressions(origins: _Origins, node: Any) -> None:
    for expression in _items(node.expressions()):
        if expression.getClass().getSimpleName() == "Alias":
            origins[expression.exprId().id()] = _made_of(origins, expression)
    if node.nodeName() == "Generate":
        of = _made_of(origins, node.generator())
        origins.update((made.exprId().id(), of) for made in _items(node.generatorOutput()))


def _made_of(origins: _Origins, expression: Any) -> frozenset[dg.TableColumnDep]:
    references = _items(expression.references().toSeq())
    return frozenset().union(
        *(origins.get(column.exprId().id(), frozenset()) for column in references)
    )


def _plan(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _columns(plan: Any) -> Sequence[tuple[int, str]]:
    return [(column.exprId().id(), column.name()) for column in _items(plan.output())]


def _items(sequence: Any) -> Sequence[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
