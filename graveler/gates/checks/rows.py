"""Checks of the number of rows, by bounds and by comparison with earlier commits."""

from collections import Counter
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from graveler.base.arguments import choice
from graveler.base.names import hour_folder, read_hour
from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import (
    Rule,
    built_in,
    check_bounds,
    check_share,
    check_some_bound,
    listed,
    nothing_below,
    of_files,
    place_of,
    source_of,
)
from graveler.gates.statistics import counts, statistics
from graveler.model import Entry

_MOST_MORE = 10
"""Largest share; a larger number is probably a percentage."""

_NORMAL = 1.4826
"""Standard deviation of a normal distribution, over the median distance from its median."""

_NOTHING_NEW = (
    "; nothing there would change, as where an hour is done again with equal content: scope='all' "
    "counts the files that stay, too"
)


@built_in
def row_count(
    prefix: str = "",
    at_least: int | None = 1,
    at_most: int | None = None,
    *,
    table: str = "",
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """The files together have the expected number of rows.

    Cost: the footer of each Parquet file; CSV files are read completely.

    Args:
        at_least: Fewest rows.
        at_most: Most rows.
        missing: ``refuse`` or ``allow``: what to do if a run adds no file; give ``allow`` if
            several pipelines publish to a branch that requires this check.
    """
    check_bounds(at_least, at_most, counts=True)
    check_some_bound(missing, at_least=at_least, at_most=at_most)

    place = place_of(prefix, table)

    def check(candidate: Candidate, entries: list[Entry]) -> str | None:
        if table:
            stats = statistics(candidate, entries, {})
        else:
            stats = candidate.new_stats(prefix) if scope == "changes" else candidate.stats(prefix)
        candidate.report(files=stats.files, rows=stats.rows)
        if stats.rows is None:
            return (
                f"rows below {place!r} cannot be counted: a file is neither Parquet nor CSV "
                "by its name"
            )
        counted = f"{stats.rows} rows in {stats.files} files below {place!r}"
        if at_least is not None and stats.rows < at_least:
            hint = "" if scope == "all" or stats.files else _NOTHING_NEW
            return f"{counted}: expected at least {at_least}{hint}"
        if at_most is not None and stats.rows > at_most:
            return f"{counted}: expected at most {at_most}"
        return None

    def nothing(candidate: Candidate) -> str | None:
        return check(candidate, []) or nothing_below(candidate, place, scope)

    return of_files(check, prefix, scope, missing, table=table, nothing=nothing)


@built_in
def row_count_change(
    prefix: str = "",
    *,
    less: float | None = 0.5,
    more: float | None = None,
    history: int = 20,
    enough: int = 3,
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """A run adds about as many rows as the median of earlier commits.

    If the run has an ``hour``, these are the commits of the same time of day in UTC, on earlier days.
    What was rolled back or reverted does not count.

    Cost: the footer of each file that the run adds; those of earlier commits are read once.

    Args:
        less: Allowed decrease as a share, from 0 to below 1 (0.5 is 50 %); None for any.
        more: Allowed increase as a share, from 0 to 10; None for any.
        history: Number of commits to compare with.
        enough: With fewer earlier commits than this, the check passes.
    """
    check_share("less", less, 1, below=True)
    check_share("more", more, _MOST_MORE)
    if less is None and more is None:
        raise InvalidInputError("less None and more None: nothing is refused: give one of them")
    if history < enough or enough < 1:
        raise InvalidInputError(
            f"history {history} and enough {enough}: compare with at least one, and with no more "
            "than are looked up"
        )

    def check(candidate: Candidate, _: list[Entry]) -> str | None:
        rows = candidate.new_stats(prefix).rows
        if rows is None:
            return f"rows below {prefix!r} cannot be counted: neither Parquet nor CSV"
        hour = read_hour(candidate.run.metadata.get("hour", ""))
        past = candidate.history(prefix, int(history), same_time=hour)
        usual = [commit.stats.rows for commit in past if commit.stats.rows is not None]
        candidate.report(rows=rows, compared=len(usual))
        if len(usual) < enough:
            return None
        middle = median(usual)
        candidate.report(usual=middle)
        same = "" if hour is None else f" of {hour:%H:%M}"
        change = f"{rows} rows below {prefix!r}, where {len(usual)} earlier commits{same}"
        if less is not None and rows < middle * (1 - less):
            return f"{change} brought {middle:g} (median): more than {less:.0%} less"
        if more is not None and rows > middle * (1 + more):
            return f"{change} brought {middle:g} (median): more than {more:.0%} more"
        return None

    return of_files(check, prefix, "changes", missing, reads=("changes", "history", "run"))


@built_in
def same_hour(
    prefix: str = "",
    column: str = "",
    *,
    days: int = 7,
    deviations: float = 4.0,
    share: float = 0.2,
    enough: int = 3,
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """The folder of the run's hour is like those of the same hour on the days before.

    The folders are ``<prefix>YYYY/MM/DD/hh:mm/``. The number of rows, or the sum of a column, may
    differ from the median of these days by some standard deviations. They are estimated from the
    median distance, so that one bad day does not hide the next.

    Cost: the footers of the hours; with a column, that column of each file.

    Args:
        column: A column of numbers whose sum is compared; "" compares the number of rows.
        days: Days to compare with.
        deviations: Allowed distance in standard deviations.
        share: Smallest allowed distance, as a share of the median.
        enough: With fewer earlier hours than this, the check passes.
    """
    check_share("share", share, _MOST_MORE)
    if days < enough or enough < 1 or deviations <= 0:
        raise InvalidInputError(
            f"days {days}, enough {enough} and deviations {deviations}: compare with at least one "
            "hour, with no more than there are days, and give deviations above 0"
        )

    def measure(candidate: Candidate, hour: datetime) -> float | None:
        folder = f"{prefix}{hour_folder(hour)}/"
        stats = candidate.stats(folder)
        if not stats.files or not column:
            return stats.rows if stats.files else None
        from graveler.gates.checks import arrays

        return sum(
            arrays.total(candidate, entry, column)
            for entry in candidate.entries(folder)
            if counts(entry)
        )

    def check(candidate: Candidate) -> str | None:
        if candidate.restores:
            return None
        hour = read_hour(candidate.run.metadata.get("hour", ""))
        if hour is None:
            return "the run has no hour in its metadata, as hour='2013-01-01T05:00Z'"
        found = measure(candidate, hour)
        if found is None:
            folder = f"{prefix}{hour_folder(hour)}/"
            return None if missing == "allow" else f"there is nothing below {folder!r}"
        earlier = (measure(candidate, hour - timedelta(days=day + 1)) for day in range(int(days)))
        usual = [value for value in earlier if value is not None]
        candidate.report(found=found, compared=len(usual))
        if len(usual) < enough:
            return None
        middle = median(usual)
        spread = _NORMAL * median(abs(value - middle) for value in usual)
        allowed = max(deviations * spread, share * abs(middle))
        candidate.report(usual=middle, allowed=allowed)
        if abs(found - middle) <= allowed:
            return None
        what = f"the sum of {column!r} is {found:g}" if column else f"{found:g} rows"
        return (
            f"{what} at {hour:%Y-%m-%d %H:%M}, where {len(usual)} days before had {middle:g} at "
            f"{hour:%H:%M} (median): more than {allowed:g} away"
        )

    choice(missing, "missing", ("refuse", "allow"))
    return Rule(check, f"{prefix} {column}".rstrip(), prefix, reads=("content", "run"))


@built_in
def partition_rows(
    table: str,
    *,
    less: float | None = 0.0,
    more: float | None = None,
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """Each partition of a table of the catalog keeps its rows, compared with the target's.

    Of a table with several partition specs, the fields that all files have make the partitions.
    Partitions that the target lacks are not judged.

    Cost: the manifests of both tables; files with deleted rows are read.

    Args:
        table: Name of the table, such as ``db.flights``.
        less: Allowed decrease as a share, from 0 to below 1 (0.5 is 50 %); None for any.
        more: Allowed increase as a share, from 0 to 10; None for any.
    """
    check_share("less", less, 1, below=True)
    check_share("more", more, _MOST_MORE)
    if less is None and more is None:
        raise InvalidInputError("less None and more None: nothing is refused: give one of them")
    place = place_of("", table)

    def check(candidate: Candidate) -> str | None:
        after, before = (source_of(tree, table) for tree in (candidate, candidate.before))
        if candidate.restores or before is None:
            return None if before or after or missing == "allow" else f"there is no table {table!r}"
        from graveler.tables.rows import partition_rows as counted

        now, *others = counted([each for each in (after, before) if each is not None])
        was = others[0] if others else now
        now = now if after is not None else Counter()
        candidate.report(partitions=len(was))
        return listed(
            f"{name or 'the table'} has {now[name]} rows, and {rows} on {candidate.into!r}"
            for name, rows in sorted(was.items())
            if (less is not None and now[name] < rows * (1 - less))
            or (more is not None and now[name] > rows * (1 + more))
        )

    choice(missing, "missing", ("refuse", "allow"))
    return Rule(check, table, place)
