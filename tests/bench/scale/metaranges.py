"""Rows of a tree with very many ranges; most of them are invented.

For a lake of 10,000,000 entries the tree has 20,000 ranges, which corresponds to 160,000,000 objects,
16 times as many. The invented ranges are never opened.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import median

import graveler
from graveler.base.names import path_key
from graveler.committed import metarange
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.metarange import get
from graveler.committed.ranges.range_store import RangeStore
from graveler.lake import Repository
from graveler.model import Commit, RangeInfo
from graveler.refs.mover import move
from graveler.testing.world import link_unseen
from tests.bench.measure import Result, clocked, ms, progress
from tests.bench.scale.place import Place, changed, entry_of, ranges_of
from tests.bench.scale.table import at_most

REAL = 8_000
_GIB = 1 << 30
_TIMES = 5
"""Repetitions of each operation in a turn, because earlier work has emptied the processor's caches."""


def metaranges(place: Place) -> list[Result]:
    """Compare the cost of the same operations on the large and on the small tree, in turns."""
    many = max(100, place.entries // 500)
    sizes = (many, max(2, many // 100))
    times = 3 * place.repeats
    with ExitStack() as lakes:
        trees = {}
        for size in sizes:
            # a lake for each: repositories of equal numbers cut the real entries at the same keys
            folder = place.scratch / f"trees-{size}"
            lake = lakes.enter_context(graveler.init(folder))
            trees[size] = _tree(lake.create_repository("trees"), size, folder / "cache")
        cost: dict[str, dict[int, list[float]]] = {}
        for number in range(times):
            progress(f"trees of {sizes} ranges, turn {number + 1} of {times}")
            for size, tree in trees.items():
                for name, seconds in tree.turn(place.scratch / "cache", number).items():
                    cost.setdefault(name, {}).setdefault(size, []).append(seconds)
    medians = {name: [median(found[size]) for size in sizes] for name, found in cost.items()}
    download = medians.pop("first decode after a download")[0]
    results = [
        at_most(
            f"{name}: {sizes[0]:,} ranges over {sizes[1]}, local flat form",
            large / small,
            2.0 if name.startswith("commit") else 1.5,
            "",
            f"{ms(large)} and {ms(small)}, medians of {times}",
        )
        for name, (large, small) in medians.items()
    ]
    return [
        *results,
        at_most(
            f"first decode after a download, {sizes[0]:,} ranges",
            download * 1e3,
            150,
            " ms",
            f"median of {times}, the read from the object store included",
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Tree:
    """A repository whose main has a tree of invented ranges around real ones.

    Attributes:
        repo: The repository.
        large: The commit of that tree.
        changed: A commit that changes one entry of it.
        kept: The folder of the lake's cache.
    """

    repo: Repository
    large: Commit
    changed: Commit
    kept: Path

    def turn(self, scratch: Path, number: int) -> dict[str, float]:
        """Return the seconds of each operation, once; `number` differs from turn to turn."""
        objects, repo = self.repo.stores.objects, self.repo
        tree, key = self.large.metarange, path_key(entry_of(REAL // 2).path)
        empty = RangeStore(objects, RangeCache(scratch / f"{repo.stores.uid}-{number}", _GIB))
        local = iter([RangeStore(objects, RangeCache(self.kept, _GIB)) for _ in range(_TIMES)])
        main = repo.branch("main")
        link_unseen(main, [changed(REAL // 2 + number)])

        def times(call: Callable[[], object]) -> float:
            return median(clocked(call) for _ in range(_TIMES))

        return {
            "first decode after a download": clocked(lambda: metarange.read(empty, tree)),
            "open": times(lambda: metarange.read(next(local), tree)),
            "seek": times(lambda: get(repo.stores.ranges, tree, key)),
            "diff": times(lambda: list(repo.diff(self.large.id, self.changed.id))),
            "commit of one change": clocked(lambda: main.commit("one change")),
        }


def _tree(repo: Repository, size: int, kept: Path) -> _Tree:
    """Put invented ranges around the real ones of a repository, and change one entry."""
    main = repo.branch("main")
    link_unseen(main, map(entry_of, range(REAL)))
    main.commit("real entries")
    real = ranges_of(main)
    half = (size - len(real)) // 2
    infos = (*_made_up("a", half), *real, *_made_up("z", size - len(real) - half))
    stores = repo.stores
    tree = metarange.write(stores.ranges, infos)
    commit = stores.refs.commits.add(
        metarange=tree,
        parents=(main.head.id,),
        message="made-up ranges",
        committer="",
        created=stores.clock.now(),
        metadata={},
    )
    move(stores.refs, "main", lambda record: replace(record, commit_id=commit.id), action="import")
    link_unseen(main, [changed(0)])
    return _Tree(repo, commit, main.commit("one change"), kept)


def _made_up(root: str, count: int) -> list[RangeInfo]:
    """Return ranges of 8,000 entries that no store has."""
    infos = []
    for number in range(count):
        prefix = f"{root}/{number // 24:05d}/{number % 24:02d}:00/part-"
        first, last = (f"{prefix}{part:05d}.snappy.parquet".encode() for part in (0, 7_999))
        identifier = sha256(first).digest()
        infos.append(RangeInfo(identifier, first, last, 8_000, 2_400_000, natural=True))
    return infos
