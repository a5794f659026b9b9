"""``graveler diff --rows``: the rows that differ between two versions of a table, by their keys."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graveler.cli.output import SIGNS, Output, counted
from graveler.cli.selection import Listing
from graveler.frames.first_rows import cell_text, plain_value
from graveler.frames.row_differences import changed_tables, differences
from graveler.model import Change, ChangeKind

if TYPE_CHECKING:
    from graveler.reads.view import View

_Row = Mapping[str, Any]


def show_rows(
    out: Output,
    views: "Sequence[View]",
    changes: Iterable[Change],
    keys: Sequence[str],
    limit: int | None,
) -> None:
    """Write the rows of each table that were added, removed or changed."""
    tables = changed_tables(views, changes)
    counts: Counter[str] = Counter()
    listing = Listing(out, limit)
    for name, sides in tables.items():
        for number, row in enumerate(differences(views, sides, keys, of=name)):
            if not number and len(tables) > 1:
                out.tell(out.style(f"{name}:", bold=True))
            counts[row["kind"]] += 1
            if listing.takes():
                out.show({"table": name, **plain_value(row)}, _line(out, **row))
    listing.end()
    named = ", ".join(f"{counts[kind]:,} {kind}" for kind in ChangeKind if counts[kind])
    out.tell(f"{counted(counts.total(), 'row')}: {named}" if named else "no row differs")


def _line(out: Output, kind: ChangeKind, key: _Row, before: _Row | None, after: _Row | None) -> str:
    sign, color = SIGNS[kind]
    first, *rest = (
        {name: cell_text(value) for name, value in row.items() if name not in key}
        for row in (before, after)
        if row is not None
    )
    texts = [f"{name}={text}" for name, text in first.items()]
    for other in rest:
        texts = [f"{n}: {old} → {other[n]}" for n, old in first.items() if old != other[n]]
    shown = " ".join(f"{name}={cell_text(value)}" for name, value in key.items())
    return f"{out.style(f'{sign} {shown}', color)}  {'  '.join(texts)}"
