"""The arguments of the command line: addresses, pairs, durations, rates, shared options, completion."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from graveler.base import arguments
from graveler.cli.failure import UsageError
from graveler.config import environment
from graveler.errors import GravelerError

if TYPE_CHECKING:
    from graveler.cli.session import Session
    from graveler.gates import Gate
    from graveler.repository.strategies import Resolver, Strategy

_PARTS = re.compile(r"([^:{]*@\{[^{}]*\}[^:]*|[^:]*):?(.*)", re.DOTALL)
_STRATEGIES = ("source-wins", "dest-wins", "conflict")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BYTES = {
    "": 1,
    "b": 1,
    **{unit: 1000**power for power, unit in enumerate(("kb", "mb", "gb"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib"), 1)},
}
_COMPLETED = 500
_DIGITS = re.compile(r"[0-9]{1,19}")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?((?:[KMG]i?)?B|)(?:/s)?", re.IGNORECASE)
_PLAIN = re.compile(r"[\w./:@%+=,-]+")  # bash inserts a name as it is, and Enter would run the rest

RefArgument = Annotated[str, "Branch, tag, commit or main~2; else the default branch."]

MetaOption = Annotated[list[str] | None, "(NAME=VALUE): A metadata pair; repeat for more."]

LimitOption = Annotated[int | None, "(-n N): List at most N.", {"min": 0}]

StrategyOption = Annotated[
    list[str] | None,
    f"([GLOB=]{'|'.join(_STRATEGIES)}): Side to use for conflicting paths: the source's or the "
    "branch's. With a glob, as in tables/**=source-wins, for these paths only; repeat for more, the "
    "first match applies.",
]


class Address(NamedTuple):
    """A place in a tree."""

    ref: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split at the first colon outside the braces of a time; the path may have more colons."""
        return cls(*_PARTS.findall(text)[0])

    @classmethod
    def of_staged(cls, where: list[str]) -> tuple[str, list[str] | None]:
        """Return the branch of ``main:tables/ :*.json``, "" for the default one, and the paths."""
        addresses = [cls.parse(text) for text in where]
        names = {address.ref for address in addresses if address.ref}
        paths = [address.path for address in addresses if address.path]
        if len(names) > 1 or (paths and len(paths) < len(addresses)):
            raise UsageError(
                f"{' '.join(where)!r}: name one branch, or paths of one, as in main:tables/ :*.json"
            )
        return min(names, default=""), paths or None

    @classmethod
    def of_file(cls, text: str) -> "Address":
        """Return the address of a file."""
        address = cls.parse(text)
        if not address.path:
            raise UsageError(
                f"{text!r} names no path: give REF:PATH, as in main:input/a.csv, or :PATH on the "
                "default branch"
            )
        return address


def split_pair(option: str, text: str) -> tuple[str, str]:
    """Return the name and the value of ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise UsageError(f"{option} {text!r}: give NAME=VALUE")
    return name, value


def read_pairs(texts: Iterable[str] | None) -> dict[str, str]:
    """Return the pairs of ``--meta``; a repeated name has its last value."""
    return dict(split_pair("--meta", text) for text in texts or ())


def read_strategy(texts: Iterable[str] | None) -> "Strategy | None":
    """Return the strategy; None if none is given."""
    rules: dict[str, str | Resolver | None] = {}
    for text in texts or ():
        pattern, separator, word = text.rpartition("=")
        if word not in _STRATEGIES or bool(separator) != bool(pattern):
            raise UsageError(
                f"--strategy {text!r}: give one of {', '.join(_STRATEGIES)}, or GLOB={_STRATEGIES[0]} "
                "for the paths that match GLOB"
            )
        rules.setdefault(pattern or "**", word)
    return rules or None


def read_duration(option: str, text: str) -> timedelta:
    """Return the length of time."""
    duration = arguments.read_duration(text)
    if duration is None:
        raise UsageError(f"{option} {text!r}: give a number and d, h, m or s, as in 7d or 36h")
    return duration


def read_rate(option: str, text: str) -> float:
    """Return bytes per second."""
    rate = _bytes(text)
    if not rate:
        raise UsageError(f"{option} {text!r}: give bytes per second, as in 50MB/s or 200MiB/s")
    return rate


def read_number(option: str, text: str) -> int:
    """Return a whole number; a unit of bytes may follow it."""
    if _DIGITS.fullmatch(text):
        return int(text)  # without the rounding of large numbers
    number = None if text.endswith("/s") else _bytes(text)
    if number is None or number != int(number):
        raise UsageError(f"{option} {text!r}: give a whole number, as in 50000 or 4MiB")
    return int(number)


def _bytes(text: str) -> float | None:
    match = _RATE.fullmatch(text)
    return None if match is None else float(match[1]) * _BYTES[match[2].lower()]


def duration_text(seconds: float) -> str:
    """Return a length of time in the largest unit that divides it."""
    for unit, size in _SECONDS.items():
        if seconds and not seconds % size:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def load_gates(names: list[str] | None) -> "list[Gate]":
    """Import the named gates; modules of the working folder can be imported too."""
    from graveler.gates.named import named

    gates = []
    for name in names or ():
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            gates.append(named(name).made())
        except (GravelerError, ImportError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(
                f"--gate {name!r}: give a built-in check, or MODULE:NAME of a gate that can be "
                f"imported ({error})"
            ) from None
    return gates


class _Reply(str):
    """A completion for bash, which replaces what follows a colon; the parser compares the whole word."""

    __slots__ = ()

    def startswith(self, *_: Any) -> bool:
        return True


def completer(
    name: str, form: str, about: str
) -> "Callable[[typer.Context, str], list[str]] | None":
    """Return what completes an argument: refs, paths or runs; None for any other."""
    if "PATH" in form and ("REF" in form or "BRANCH" in form):
        return _complete_address
    if name in ("key", "run") and "run" in about.lower():
        return _complete_run
    of_ref = name in ("ref", "left", "right", "branch", "commit", "source", "into") and not form
    return _complete_ref if of_ref or about.startswith(("The branch", "The tag")) else None


def _complete_ref(context: typer.Context, incomplete: str) -> list[str]:
    def names(session: "Session") -> Iterator[str]:
        yield from (record.name for record in session.repository.branches())
        yield from session.repository.tags.list()

    return _found(context, incomplete, names)


def _complete_run(context: typer.Context, incomplete: str) -> list[str]:
    return _found(
        context,
        incomplete,
        lambda session: (record.key for record in session.repository.runs.list()),
    )


def _complete_address(context: typer.Context, incomplete: str) -> list[str]:
    if ":" not in incomplete:
        return [f"{name}:" for name in _complete_ref(context, incomplete)]
    ref, path = Address.parse(incomplete)
    in_bash = bool(environment("COMP_WORDS"))
    paths = _found(
        context,
        path,
        lambda session: (item.path for item in session.view(ref).list(path, delimiter="/")),
    )
    return [_Reply(each) if in_bash else f"{ref}:{each}" for each in paths]


def bash_words(words: str, at: int) -> list[str]:
    """Return the words of a command up to the unfinished one; bash takes each colon for a word."""
    joined: list[str] = []
    for word in words.split(" ")[: at + 1]:
        if joined and (word == ":" or (word and joined[-1].endswith(":"))):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _found(
    context: typer.Context, start: str, names: "Callable[[Session], Iterable[str]]"
) -> list[str]:
    """Return the names with this start; none if the lake cannot be read."""
    from graveler.cli.output import Output
    from graveler.cli.session import Options, Session

    given = {**context.find_root().params, **{k: v for k, v in context.params.items() if v}}
    options = Options(given.get("lake") or "", given.get("repo") or "")
    with suppress(GravelerError, OSError), Session(options, Output(as_json=True)) as session:
        in_bash = bool(environment("COMP_WORDS"))
        found = (
            name
            for name in names(session)
            if name.startswith(start) and (not in_bash or _PLAIN.fullmatch(name))
        )
        return [*islice(found, _COMPLETED)]
    return []
