"""Checks of the paths that a run may change or delete."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from graveler.base.names import check_prefix, hour_folder, read_hour
from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import Rule, built_in, listed
from graveler.model import Change, ChangeKind

_TIME = "2013-01-01T05:00Z"
"""A value that every valid format accepts."""
OWN_HOURS = "graveler.hours"
"""Metadata that a tick gives to gates: all hours whose files it publishes, separated by commas."""
_VERBS = {
    ChangeKind.ADDED: "added",
    ChangeKind.CHANGED: "changed",
    ChangeKind.REMOVED: "deleted",
}


@built_in
def only_within(*prefixes: str, **options: Any) -> Rule:
    """A run changes only paths below prefixes. Cost: no file is read.

    Args:
        prefixes: The allowed prefixes; ``{hour}`` is replaced by the value of that name in the
            run's metadata. A time, such as the integrations set, also matches its folder,
            ``2013/01/01/05:00``, and accepts a format, as in ``{hour:%Y/%m/%d}``. For a tick,
            ``{hour}`` also stands for each other hour that it publishes files of.
    """
    return _within(prefixes, lambda _: True)


@built_in
def nothing_deleted_outside(*prefixes: str, **options: Any) -> Rule:
    """A run deletes only paths below prefixes. Cost: no file is read.

    Args:
        prefixes: The allowed prefixes, as for `only_within`.
    """
    return _within(prefixes, lambda change: change.kind is ChangeKind.REMOVED)


def _within(prefixes: tuple[str, ...], applies: Callable[[Change], bool]) -> Rule:
    """Return the rule that some changes lie below prefixes, which may name metadata of the run."""
    if not prefixes or not all(prefixes):
        raise InvalidInputError("name at least one prefix, and none empty")
    for prefix in prefixes:
        check_prefix("prefixes", prefix)
        _check_format(prefix)
    names_pairs = any("{" in prefix for prefix in prefixes)
    shown = f"prefixes {', '.join(prefixes)}"

    def check(candidate: Candidate) -> str | None:
        if candidate.restores:
            return None
        pairs = {"key": candidate.run.key, **candidate.run.metadata} if names_pairs else {}
        hours = pairs.pop(OWN_HOURS, "").split(",")
        ticks = [pairs, *({**pairs, "hour": hour} for hour in hours if hour and "hour" in pairs)]
        try:
            allowed = tuple({one: None for each in ticks for one in _filled(prefixes, each)})
        except KeyError as error:
            known = ", ".join(sorted(pairs))
            return f"{shown}: the run has no {error} among its metadata ({known})"
        except ValueError as error:
            return f"{shown} cannot be filled in: {error}"
        if not all(allowed):
            return f"{shown}: what they name is empty for this run"
        outside = [
            change
            for change in candidate.changes()
            if applies(change) and not change.path.startswith(allowed)
        ]
        candidate.report(allowed=allowed, outside=len(outside))
        return listed(
            f"{change.path!r} would be {_VERBS[change.kind]} outside of what the run may touch"
            for change in outside
        )

    reads = ("changes", "run") if names_pairs else ("changes",)
    return Rule(check, " ".join(prefixes), reads=reads)


class _Filler(Formatter):
    """Formats prefixes with metadata, whose names may have dots; a time accepts a date format."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        time = read_hour(value) if "%" in format_spec else None
        return format(value if time is None else time, format_spec)


def _check_format(prefix: str) -> None:
    """Refuse a prefix that the metadata of no run can fill in."""
    filler = _Filler()
    try:
        unnamed = "" in {name for _, name, _, _ in filler.parse(prefix)}
        filler.vformat(prefix, (), defaultdict(lambda: _TIME))
    except ValueError as error:
        raise InvalidInputError(
            f"prefix {prefix!r} cannot be filled in: {error}; give names in braces, as 't/{{hour}}/'"
        ) from error
    if unnamed:
        raise InvalidInputError(f"prefix {prefix!r}: give a name in its braces, as 't/{{hour}}/'")


def _filled(prefixes: tuple[str, ...], pairs: Mapping[str, str]) -> tuple[str, ...]:
    """Return prefixes formatted with a run's metadata, with times both as text and as folders."""
    # a date alone is not an hour
    times = {name: read_hour(text) if ":" in text else None for name, text in pairs.items()}
    folders = {name: hour_folder(time) for name, time in times.items() if time is not None}
    filler = _Filler()
    filled = (
        filler.vformat(prefix, (), given)
        for prefix in prefixes
        for given in (pairs, {**pairs, **folders})
    )
    return tuple(dict.fromkeys(filled))
