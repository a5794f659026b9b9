"""Six invented histories, one for each way in which lakes change."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType

from graveler.committed.apply import StagedChange
from graveler.errors import InvalidInputError
from graveler.simulation.history import History, nothing, removed, sorted_changes, written

Base = Callable[[], Iterable[StagedChange]]
"""Returns the initial tree of a history."""

_START = datetime(2021, 4, 26, 2, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_FILES_OF_A_FOLDER = 500
_FOLDERS_OF_A_COMPACTION = 5
_COMPACTED = 10
_HOURS_OF_B = 3
_OTHER_FOLDERS = 33


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a pattern."""

    files: int
    commits: int
    tables: int = 1
    base: int = 0
    seed: int = 1


class _Lake:
    """The paths of an invented lake: tables with hours with files, which have random names."""

    def __init__(self, sizes: Sizes) -> None:
        self._random = Random(sizes.seed)
        self.tables = range(sizes.tables)
        self._digits = max(2, len(str(sizes.tables - 1)))  # names sort like numbers

    def hour(self, table: int, at: datetime, files: int) -> list[bytes]:
        """Return the paths of the files of an hour, in key order."""
        folder = f"input/table-{table:0{self._digits}d}/{at:%Y/%m/%d/%H:00}/part-"
        bits = self._random.getrandbits
        return [b"%b%05d-%032x.parquet" % (folder.encode(), at, bits(128)) for at in range(files)]

    def hours(self, before: datetime, count: int, files: int) -> Iterator[bytes]:
        """Yield the paths of the last hours before a time, of all tables, in key order."""
        for table in self.tables:
            for back in range(count, 0, -1):
                yield from self.hour(table, before - back * _HOUR, files)


def _base(sizes: Sizes, files: int) -> Base:
    """Return the initial tree: hours before the first commit, each with that many files."""
    hours = -(-sizes.base // (files * sizes.tables))
    return lambda: map(written, _Lake(sizes).hours(_START, hours, files)) if hours else nothing()


def _appends(sizes: Sizes) -> History:

    def commits() -> Iterator[list[StagedChange]]:
        lake = _Lake(replace(sizes, seed=sizes.seed + 1))
        for number in range(sizes.commits):
            at = _START + number * _HOUR
            yield [
                written(key) for table in lake.tables for key in lake.hour(table, at, sizes.files)
            ]

    return History("", "", _base(sizes, max(sizes.files, _FILES_OF_A_FOLDER)), commits)


def compaction(base: Base, sizes: Sizes) -> History:
    """Return a history in which each commit replaces the files of 5 folders by fewer files."""

    def commits() -> Iterator[list[StagedChange]]:
        random = Random(sizes.seed + 1)
        folders: dict[bytes, list[bytes]] = {}
        for key, *_ in base():
            folders.setdefault(key.rpartition(b"/")[0], []).append(key)
        order = list(folders)
        random.shuffle(order)
        for number in range(min(sizes.commits, -(-len(order) // _FOLDERS_OF_A_COMPACTION))):
            at = number * _FOLDERS_OF_A_COMPACTION
            changes: list[StagedChange] = []
            for folder in order[at : at + _FOLDERS_OF_A_COMPACTION]:
                old = folders[folder]
                changes += map(removed, old)
                start = folder + b"/" if folder else b""
                changes += (
                    written(
                        b"%bcompacted-%05d-%032x.parquet" % (start, part, random.getrandbits(128))
                    )
                    for part in range(-(-len(old) // _COMPACTED))
                )
            yield sorted_changes(changes)

    return History("", "", base, commits)


def updates(base: Base, sizes: Sizes) -> History:
    """Return a history in which each commit rewrites random files."""

    def commits() -> Iterator[list[StagedChange]]:
        random = Random(sizes.seed + 1)
        entries = [(key, len(value)) for key, _, value in base() if value is not None]
        for number in range(1, sizes.commits + 1):
            chosen = random.sample(entries, min(sizes.files, len(entries)))
            yield sorted_changes(written(key, number, size) for key, size in chosen)

    return History("", "", base, commits)


def _branches(sizes: Sizes) -> History:
    """Return two branches that add the same folders; 3 % of the folders have other files."""

    def files(at: datetime, branch: int) -> Iterator[bytes]:
        for table in range(sizes.tables):
            hour = (at - _START) // _HOUR
            draw = Random(f"{sizes.seed} {table} {hour}")
            other = draw.randrange(_OTHER_FOLDERS) == 0
            seed = draw.getrandbits(32) + (other and branch)
            yield from _Lake(replace(sizes, seed=seed)).hour(table, at, sizes.files)

    def commits(branch: int, step: int) -> Iterator[list[StagedChange]]:
        for start in range(0, sizes.commits, step):
            hours = range(start, min(start + step, sizes.commits))
            keys = (key for hour in hours for key in files(_START + hour * _HOUR, branch))
            yield sorted_changes(map(written, keys))

    return replace(
        _appends(sizes),
        commits=lambda: commits(0, 1),
        other=lambda: commits(1, _HOURS_OF_B),
    )


_MAKERS: Mapping[str, tuple[Sizes, Callable[[Sizes], History]]] = MappingProxyType(
    {
        "hourly": (Sizes(40, 720), _appends),
        "hourly-large": (Sizes(2_000, 360), _appends),
        "tables": (Sizes(100, 72, tables=20, base=200_000), _appends),
        "compaction": (
            Sizes(_FILES_OF_A_FOLDER, 48, tables=20, base=500_000),
            lambda of: compaction(_base(of, of.files), of),
        ),
        "updates": (
            Sizes(20, 48, tables=20, base=500_000),
            lambda of: updates(_base(of, _FILES_OF_A_FOLDER), of),
        ),
        "branches": (Sizes(1_000, 72, base=100_000), _branches),
    }
)

PATTERNS: Sequence[str] = tuple(_MAKERS)
"""The patterns by name: small and large hourly appends, many tables, partition compaction, random
updates, and two branches that add nearly the same files."""


def pattern(name: str, *, seed: int = 1, **given: int) -> History:
    """Return an invented history."""
    if name not in _MAKERS:
        raise InvalidInputError(f"pattern {name!r}: give one of {', '.join(PATTERNS)}")
    sizes, make = _MAKERS[name]
    sizes = replace(sizes, seed=seed, **given)
    start = f"{sizes.base:,} files" if sizes.base else "an empty tree"
    if sizes.base and name in {"compaction", "updates"}:
        start += f" in {sizes.tables} tables"
    about = f"{_what(name, sizes)}, {sizes.commits:,} commits, from {start}"
    if name == "branches":
        about += (
            f"; a second branch commits the same every {_HOURS_OF_B} hours, one folder in "
            f"{_OTHER_FOLDERS} with other files, and is merged"
        )
    return replace(make(sizes), name=name, about=about)


def _what(name: str, sizes: Sizes) -> str:
    """Return a description of a commit of a pattern."""
    noun = "file" if sizes.files == 1 else "files"
    if name == "compaction":
        return f"{_FOLDERS_OF_A_COMPACTION} folders a commit, {_COMPACTED} files of each become one"
    if name == "updates":
        return f"{sizes.files:,} {noun} written again a commit, chosen at random"
    each = f" in each of {sizes.tables} tables" if sizes.tables > 1 else ""
    return f"{sizes.files:,} new {noun} a commit{each}"


def changed_by(
    history: History, name: str, *, files: int = 20, commits: int = 48, seed: int = 1
) -> History:
    """Return a history that changes another one's tree by a pattern: `compaction` or `updates`."""
    makers = {"compaction": compaction, "updates": updates}
    if name not in makers:
        raise InvalidInputError(
            f"pattern {name!r} makes a tree of its own: for a listing give one of "
            f"{', '.join(makers)}, or none, to replay it by the times of its files"
        )

    def whole() -> list[StagedChange]:
        tree = {change[0]: change for change in history.base()}
        for changes in history.commits():
            tree.update((change[0], change) for change in changes)
        return sorted_changes(tree.values())

    sizes = Sizes(files, commits, seed=seed)
    about = f"{_what(name, sizes)}, {commits:,} commits, from {history.about}"
    return replace(makers[name](whole, sizes), name=f"{name} of {history.name}", about=about)
