"""The page of a comparison: what differs between two refs, and what a merge would do."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate, islice
from typing import Any, NamedTuple

from graveler.errors import GravelerError
from graveler.frames.first_rows import cell_text, form_of
from graveler.frames.footers import read_footer, reading
from graveler.lake import Repository
from graveler.model import Change, ChangeKind, Conflict, Entry
from graveler.pages.page import Page, limited
from graveler.pages.query import Query
from graveler.pages.trees.places import expression_of, shell_word
from graveler.tables.views import Ref

COUNTED = 10_000
"""A page counts so many changes."""
SHOWN = 100
"""A page shows so many changed files."""
FOLDERS = 50
"""A page shows so many folders with changes."""
MERGED = 5_000
"""A page counts so many changes and conflicts of a merge."""
CONFLICTS = 50
"""A page shows so many conflicts."""
FOOTERS = 10
"""A page reads the columns of so many files of each side."""
LOOKED = 1_000
"""A page looks among so many files for a table."""
ROW_BYTES = 8 << 20
"""A page compares the rows of changed files of at most so many bytes, both sides together."""
ROW_FILES = 50
"""A page compares the rows of so many changed files, both sides together."""
VALUES = 2_000_000
"""A page compares so many values of rows: rows times columns."""
UNPACKED_BYTES = 256 << 20
"""A page compares the rows of Parquet files of at most so many bytes in memory."""
PART = 250
"""A page measures so many rows at once."""
DIFFERENCES = 100
"""A page shows so many rows that differ."""
CELLS = 20
"""A page shows so many cells of a row that differs."""
CELL = 80
"""A page shows so many characters of a cell."""


@dataclass
class Tally:
    """Numbers of changed files, and their bytes before and after."""

    kinds: Counter[str] = field(default_factory=Counter)
    before: int = 0
    after: int = 0

    def add(self, change: Change) -> None:
        """Count a change."""
        self.kinds[change.kind] += 1
        self.before += change.before.size if change.before else 0
        self.after += change.after.size if change.after else 0

    @property
    def files(self) -> int:
        """The number of changed files."""
        return self.kinds.total()

    @property
    def added(self) -> int:
        """The number of added files."""
        return self.kinds[ChangeKind.ADDED]

    @property
    def changed(self) -> int:
        """The number of changed files that both sides have."""
        return self.kinds[ChangeKind.CHANGED]

    @property
    def removed(self) -> int:
        """The number of removed files."""
        return self.kinds[ChangeKind.REMOVED]


class Schemas(NamedTuple):
    """The columns of a table on both sides that differ: name, type before, type after."""

    columns: Sequence[tuple[str, str, str]] = ()
    same: int = 0
    cut: bool = False
    problem: str = ""


class Row(NamedTuple):
    """A row that differs: its key, and its cells before and after."""

    kind: str
    key: str
    cells: Sequence[tuple[str, str, str]]


class Rows(NamedTuple):
    """The rows that differ."""

    rows: Sequence[Row] = ()
    more: bool = False
    problem: str = ""


class Merge(NamedTuple):
    """What a merge of the right side into the left one would do.

    Attributes:
        problem: Why there is no merge.
        gates: The gates that would judge, each with its check and the parameters.
    """

    problem: str = ""
    preview: Any = None
    conflicts: Sequence[Conflict] = ()
    gates: Sequence[tuple[str, str, str]] = ()


class Sides(NamedTuple):
    """The two refs of a comparison, with their expressions."""

    left: str
    right: str
    before: Ref
    after: Ref

    @property
    def words(self) -> str:
        """Both refs as words of the command line."""
        return f"{shell_word(self.left)} {shell_word(self.right)}"

    @property
    def merge_words(self) -> str:
        """Both refs as words of a merge: the source, then the branch that moves."""
        return f"{shell_word(self.right)} {shell_word(self.left)}"


def compare(repository: Repository, query: Query) -> Page:
    """Return the page of a comparison."""
    sides, path, key = _sides(repository, query), query.text("path"), query.text("key")
    ids = sides.before.commit.id, sides.after.commit.id
    found, more = limited(repository.diff(*ids, prefix=path), COUNTED)
    total, folders = Tally(), dict[str, Tally]()
    for change in found:
        total.add(change)
        folders.setdefault(_below(change.path, path), Tally()).add(change)
    tables = [change for change in found if form_of(change.after or change.before)]  # type: ignore[arg-type]  # a change has one of them
    values = {
        "sides": sides,
        "path": path,
        "key": key,
        "total": total,
        "more": more,
        "counted": COUNTED,
        "folders": list(folders.items())[:FOLDERS] if len(folders) > 1 else [],
        "hidden_folders": max(len(folders) - FOLDERS, 0),
        "changes": found[:SHOWN],
        "tables": len(tables),
        "schemas": _schemas(sides, path, tables) if path and tables else None,
        "rows": _rows(sides, tables, key, cut=more) if key and tables else None,
        "merge": _merge(repository, sides),
        "shell_path": shell_word(path) if path else "",
        "shell_key": shell_word(key or "KEY"),
    }
    return Page("compare", "Compare", values)


def _sides(repository: Repository, query: Query) -> Sides:
    default = repository.stores.default_branch
    right = expression_of(repository, query, "right")
    after = repository.ref(right)
    start = default
    if right == default and after.commit.parents:
        start = f"{default}~1"
    left = expression_of(repository, query, "left", start)
    return Sides(left, right, repository.ref(left), after)


def _below(path: str, start: str) -> str:
    """Return the folder in which a path is, below the start of paths: as far as the next slash."""
    slash = path.find("/", len(start))
    return path[: slash + 1] if slash >= 0 else path[: path.rfind("/") + 1]


def _schemas(sides: Sides, path: str, tables: Sequence[Change]) -> Schemas:
    """Return the difference of the columns of the changed files; an appended table is compared too."""
    olds = [change.before for change in tables if change.before]
    news = [change.after for change in tables if change.after]
    try:
        before = _columns(sides.before, path, olds)
        after = _columns(sides.after, path, news)
    except GravelerError as error:
        return Schemas(problem=str(error))
    names = dict.fromkeys([*before, *after])
    rows = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    differ = [row for row in rows if row[1] != row[2]]
    cut = max(len(olds), len(news)) > FOOTERS
    return Schemas(differ, len(rows) - len(differ), cut)


def _columns(ref: Ref, path: str, changed: Sequence[Entry]) -> Mapping[str, str]:
    """Return the types of the columns of files, or else of the first table of a side, by name."""
    from graveler.frames.source import Source

    entries = (
        changed[:FOOTERS]
        or [entry for entry in islice(ref.entries(path), LOOKED) if form_of(entry)][:1]
    )
    found: dict[str, str] = {}
    for form in dict.fromkeys(map(form_of, entries)):
        files = [(entry.path, entry) for entry in entries if form_of(entry) == form]
        source = Source(ref, "", files, form)
        if source.in_parts:
            found |= {each.name: str(each.type) for each in source.schema}
    return found


def _rows(sides: Sides, tables: Sequence[Change], key: str, *, cut: bool) -> Rows:
    """Return the rows of the changed files that differ, if they are small enough."""
    from graveler.frames.row_differences import differences

    files = [
        [entry for entry in side if entry is not None]
        for side in zip(*((change.before, change.after) for change in tables), strict=True)
    ]
    if cut or (problem := _too_large(files)):
        return Rows(problem=f"there are more than {COUNTED:,} changes" if cut else problem)
    try:
        both = list(zip((sides.before, sides.after), files, strict=True))
        footers = (
            read_footer(ref, entry, most=0)
            for ref, side in both
            for entry in side
            if form_of(entry) == "parquet"
        )
        if sum(footer.rows * len(footer.schema) for footer in footers) > VALUES:
            return Rows(problem=f"the changed files have more than {VALUES:,} values")
        sizes = (size for ref, side in both for entry in side for size in _unpacked(ref, entry))
        if any(total > UNPACKED_BYTES for total in accumulate(sizes)):
            told = f"the changed files have more than {UNPACKED_BYTES >> 20} MiB when unpacked"
            return Rows(problem=told)
        found = differences([ref for ref, _ in both], files, key.split(","))
        rows, more = limited(map(_row, found), DIFFERENCES)
    except GravelerError as error:
        return Rows(problem=str(error))
    return Rows(rows, more)


def _unpacked(ref: Ref, entry: Entry) -> Iterator[int]:
    """Yield the sizes of the parts of a Parquet file in memory: a value that repeats is stored once."""
    if form_of(entry) != "parquet":
        return
    from pyarrow.parquet import ParquetFile

    with ref.open(entry) as stream, reading(entry, "parquet"):
        file = ParquetFile(stream)
        groups = file.metadata.num_row_groups
        if sum(file.metadata.row_group(n).total_byte_size for n in range(groups)) > UNPACKED_BYTES:
            yield UNPACKED_BYTES + 1  # one page may be that large
        yield from (batch.nbytes for batch in file.iter_batches(PART, use_threads=False))


def _too_large(files: Sequence[Sequence[Entry]]) -> str:
    """Return why a page does not compare the rows of files, or ""."""
    entries = [entry for side in files for entry in side]
    if len(entries) > ROW_FILES or sum(entry.size for entry in entries) > ROW_BYTES:
        return (
            f"the changed files are more than {ROW_FILES}, or have more than {ROW_BYTES >> 20} MiB"
        )
    packed = (entry.path for entry in entries if entry.path.lower().endswith(".gz"))
    return next((f"{path!r} is packed, and a page unpacks no whole file" for path in packed), "")


def _row(found: Mapping[str, Any]) -> Row:
    before, after = found["before"] or {}, found["after"] or {}
    key = ", ".join(f"{name}={_cell(value)}" for name, value in found["key"].items())
    names = (name for name in after or before if name not in found["key"])
    cells = ((name, _text(before, name), _text(after, name)) for name in names)
    return Row(found["kind"], key, list(islice((c for c in cells if c[1] != c[2]), CELLS)))


def _text(row: Mapping[str, Any], name: str) -> str:
    return _cell(row[name]) if name in row else ""


def _cell(value: Any) -> str:
    text = cell_text(value)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


def _merge(repository: Repository, sides: Sides) -> Merge:
    """Return what a merge of the right side into the left one would do; no gate runs."""
    try:
        repository.branch(sides.left)
    except GravelerError:
        return Merge("a merge goes into a branch: give a branch as the left side")
    if sides.left == sides.right:
        return Merge("both sides are one branch")
    gates = _gates(repository, sides.left)
    try:
        preview = repository.preview_merge(sides.right, sides.left, limit=MERGED)
    except GravelerError as error:
        return Merge(str(error), gates=gates)
    return Merge("", preview, preview.conflicts[:CONFLICTS], gates)


def _gates(repository: Repository, branch: str) -> list[tuple[str, str, str]]:
    """Return the gates that a branch requires: name, check, and its parameters."""
    rules = repository.gates.settings().items()
    gates = [gate for pattern, them in rules if fnmatchcase(branch, pattern) for gate in them]
    return [
        (gate.options.get("name") or gate.check, gate.check, cell_text(dict(gate.parameters)))
        for gate in gates
    ]
