"""``graveler splitting``: where ranges of the metadata end, and a comparison of policies."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import read_duration, read_number, split_pair
from graveler.cli.failure import UsageError
from graveler.cli.output import to_json
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.display import size_text
from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from graveler.base.background import Progress
    from graveler.simulation.figures import Figures
    from graveler.simulation.history import History
    from graveler.simulation.replay import Policy


_Bytes = Annotated[str | None, "(BYTES): As 5242880 or 5MiB."]
_Count = Annotated[str | None, "(N): "]


@verb("splitting show")
def _show(session: Session) -> None:
    """Show the policy of the repository and its parameters."""
    _show_policy(session, session.repository.splitting.show())


@verb("splitting set")
def _set(
    session: Session,
    *,
    policy: str = "",
    max_bytes: _Bytes = None,
    min_bytes: _Bytes = None,
    table_bytes: _Bytes = None,
    part_bytes: _Bytes = None,
    directory_bytes: _Bytes = None,
    key_bytes: _Bytes = None,
    raggedness: _Count = None,
    hard: _Count = None,
    hard_directories: _Count = None,
) -> None:
    """Change the policy or its parameters; existing ranges do not change.

    Args:
        policy (hash|directory): The policy; its parameters get defaults.
    """
    given = {
        "max_bytes": max_bytes,
        "min_bytes": min_bytes,
        "table_bytes": table_bytes,
        "part_bytes": part_bytes,
        "directory_bytes": directory_bytes,
        "key_bytes": key_bytes,
        "raggedness": raggedness,
        "hard": hard,
        "hard_directories": hard_directories,
    }
    parameters: dict[str, Any] = {
        name: read_number(f"--{name.replace('_', '-')}", text)
        for name, text in given.items()
        if text is not None
    }
    if policy:
        parameters["policy"] = policy
    if not parameters:
        raise UsageError("nothing to set: give --policy, --max-bytes or another parameter")
    _show_policy(session, session.repository.splitting.set(**parameters))


def _show_policy(session: Session, policy: dict[str, str | int]) -> None:
    width = max(map(len, policy))
    session.out.show(policy, *(f"{name:{width}}  {value}" for name, value in policy.items()))


@verb("splitting simulate")
def _simulate(
    session: Session,
    *,
    pattern: str = "",
    listing: list[Path] | None = None,
    branch: str = "",
    policy: list[str] | None = None,
    files: Annotated[int | None, {"min": 1}] = None,
    commits: Annotated[int | None, {"min": 1}] = None,
    tables: Annotated[int | None, {"min": 1}] = None,
    base: Annotated[int | None, {"min": 0}] = None,
    seed: Annotated[int, {"min": 0}] = 1,
    every: str = "1h",
    columns: str = "",
    sort: bool = False,
) -> None:
    """Compare splitting policies on a history: the bytes that commits write, and their costs.

    Nothing is written. Bytes are logical: those of keys and value records before compression.

    Args:
        pattern (hourly|hourly-large|tables|compaction|updates|branches): An invented history.
        listing (FILE): A listing of a bucket: an S3 inventory as CSV or Parquet, sorted by
            path; repeat for more. Replayed by the times of its files, or changed by --pattern.
        branch (BRANCH): The commits of a branch of the repository.
        policy (NAME[,PARAMETER=N...]): A policy to compare, as hash, directory,max_bytes=8MiB
            or lakefs; repeat for more. Else these three with their defaults and, with --branch,
            the repository's policy.
        files (N): Files that a commit changes.
        commits (N): Number of commits to replay, the latest.
        tables (N): Tables of a pattern.
        base (N): Files that a pattern starts from.
        seed (N): Seed of a pattern's random numbers.
        every (TIME): Span of a listing for each commit.
        columns (NAMES): Columns of a CSV listing without names: the fileSchema of the
            inventory's manifest.
        sort: Sort the listing first.
    """
    from graveler.simulation.figures import figures
    from graveler.simulation.patterns import pattern as invented
    from graveler.simulation.replay import BASELINE, Policy, replay
    from graveler.simulation.sources import branch_history

    policies = list(map(_policy, policy or [BASELINE.name, "hash", "directory"]))
    sizes = {"files": files, "commits": commits, "tables": tables, "base": base}
    if bool(branch) + bool(listing) + bool(pattern and not listing) != 1:
        raise UsageError("give one of --pattern, --listing and --branch")
    if listing:
        span = read_duration("--every", every)
        listed = {"files": listing, "columns": columns, "sort": sort}
        history = _of_listing(listed, span, pattern, sizes, seed)
    elif branch:
        stores = session.repository.stores
        head = session.repository.branch(branch).head
        history = branch_history(stores, head, branch, **_given(sizes, "commits"))
        if not policy:
            policies.append(Policy("as it is set", stores.splitting))
    else:
        history = invented(pattern, seed=seed, **_given(sizes))
    with session.progress("simulate") as progress:
        results = [
            figures(replay(history, each, _progress(progress, each.name, commits or 0)))
            for each in policies
        ]
    _show_history(session, history, results)


def _of_listing(
    listed: dict[str, Any], span: timedelta, pattern: str, sizes: dict[str, int | None], seed: int
) -> "History":
    from graveler.simulation.patterns import changed_by
    from graveler.simulation.sources import listed_history, listed_tree

    if pattern:
        tree = listed_tree(**listed)
        return changed_by(tree, pattern, seed=seed, **_given(sizes, "files", "commits"))
    return listed_history(**listed, every=span, **_given(sizes, "commits"))


def _progress(progress: "Progress | None", name: str, known: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(name, done, max(done, known))


def _given(sizes: dict[str, int | None], *names: str) -> dict[str, Any]:
    """Return the given sizes, and refuse those that do not apply here."""
    given = {name: value for name, value in sizes.items() if value is not None}
    for name in given:
        if names and name not in names:
            raise UsageError(f"--{name} applies to a pattern only: leave it out")
    return given


def _policy(text: str) -> "Policy":
    from graveler.committed.splitting import Splitting
    from graveler.simulation.replay import BASELINE, Policy

    if text == BASELINE.name:
        return BASELINE
    name, *pairs = text.split(",")
    given = dict(split_pair("--policy", pair) for pair in pairs)
    known = [field.name for field in fields(Splitting)][1:]
    for parameter in given:
        if parameter not in known:
            raise UsageError(
                f"--policy {text!r}: no parameter {parameter!r}: {', '.join(known)} are"
            )
    numbers = {key: read_number(f"--policy {key}=", value) for key, value in given.items()}
    try:
        return Policy(text, Splitting(name, **numbers))
    except InvalidInputError as error:
        raise UsageError(f"--policy {text!r}: {error}") from error


def _show_history(session: Session, history: "History", results: "Sequence[Figures]") -> None:
    if session.out.as_json:
        for result in results:
            session.out.line(to_json({"history": history.name} | asdict(result)))
        return
    session.out.line(f"{history.name}: {history.about}")
    session.out.line()
    rows = [("", *(result.policy for result in results))]
    rows += [
        (title, *(read(result) for result in results))
        for title, read in _ROWS
        if any(read(result) for result in results)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (title, *cells) in enumerate(rows):
        line = f"{title:{widths[0]}}" + "".join(
            f"  {cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)
        )
        session.out.line(session.out.style(line, bold=not number))
    session.out.line()
    session.out.line(
        "Bytes are those of paths and records before compression. Costs are those of an object store:"
    )
    session.out.line("a request costs as much as 4 MiB, an object at least as much as 512 KiB.")
    if any(result.policy == "lakefs" for result in results):
        session.out.line("lakefs is lakeFS's rule with its defaults, for comparison.")


def _percent(share: float) -> str:
    return f"{share:.1%}"


_ROWS: "Sequence[tuple[str, Callable[[Figures], str]]]" = (
    ("commits", lambda it: f"{it.commits:,}"),
    ("ranges written per commit", lambda it: f"{it.ranges_written:.2f}"),
    ("bytes written per commit", lambda it: size_text(round(it.bytes_written))),
    ("bytes written over bytes changed", lambda it: f"{it.amplification:,.1f}"),
    ("bytes read per commit", lambda it: size_text(round(it.bytes_read))),
    ("cost of a commit", lambda it: f"{it.write_cost:.1f} MiB"),
    ("ranges reused", lambda it: _percent(it.ranges_reused)),
    ("bytes reused", lambda it: _percent(it.bytes_reused)),
    ("bytes of all ranges written", lambda it: size_text(it.history_bytes)),
    ("ranges at the end", lambda it: f"{it.ranges:,}"),
    ("bytes at the end", lambda it: size_text(it.bytes)),
    ("size of a range, 10 %", lambda it: size_text(it.sizes[0])),
    ("size of a range, 50 %", lambda it: size_text(it.sizes[1])),
    ("size of a range, 90 %", lambda it: size_text(it.sizes[2])),
    ("ranges below 1 MiB", lambda it: _percent(it.small)),
    ("bytes in ranges of 1 to 10 MiB", lambda it: _percent(it.well_sized)),
    ("ranges that end by the policy", lambda it: _percent(it.natural)),
    ("cost of a cold listing", lambda it: f"{it.listing_cost:,.0f} MiB"),
    (
        "ranges that a merge reads",
        lambda it: "" if it.merge is None else f"{it.merge.ranges_read:,}",
    ),
    (
        "bytes that a merge reads",
        lambda it: "" if it.merge is None else size_text(it.merge.bytes_read),
    ),
    (
        "added bytes that branches share",
        lambda it: "" if it.merge is None else _percent(it.merge.bytes_shared),
    ),
)
"""Title and text of each row of the report; a row that is empty for all policies is left out."""
