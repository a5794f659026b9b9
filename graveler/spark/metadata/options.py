"""The checked options of the data source: the kind and the version to read."""

from collections.abc import Mapping
from dataclasses import dataclass

from graveler.base.arguments import moment, prefix_text, whole_number
from graveler.errors import InvalidInputError

_REF = ("ref", "versionAsOf", "timestampAsOf")
_OF_ALL = ("lake", "repository", "kind")

KINDS: Mapping[str, tuple[str, ...]] = {
    "entries": (*_REF, "prefix", "parallelism"),
    "ranges": (*_REF, "prefix"),
    "diff": ("base", *_REF, "prefix", "parallelism"),
    "commits": _REF,
    "refs": (),
    "runs": (),
    "conflicts": ("base", *_REF),
    "changes": ("branch", "startingRef", "maxCommitsPerTrigger", "prefix", "parallelism"),
}
"""The kinds, with their options in addition to the lake, the repository and the kind."""

STREAMS = ("changes",)
"""Kinds that can be read only as streams."""


@dataclass(frozen=True, slots=True)
class Request:
    """The content that a frame shows."""

    lake: str
    repository: str
    kind: str
    ref: str = ""
    at: str = ""
    base: str = ""
    prefix: str = ""
    parallelism: int = 0
    branch: str = ""
    starting_ref: str = ""
    most: int = 0

    def __post_init__(self) -> None:
        prefix_text(self.prefix, "prefix")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Request":
        """Return the request of the given options; names may be in any case, as in Spark."""
        given = {name.lower(): value for name, value in options.items()}
        kind = given.get("kind", "")
        if kind not in KINDS:
            raise InvalidInputError(
                f'option kind: {kind!r}: choose of {", ".join(KINDS)}, as in .option("kind", "entries")'
            )
        names = {name.lower(): name for name in (*_OF_ALL, *KINDS[kind])}
        for name in given:
            if name not in names:
                raise InvalidInputError(
                    f"option {name!r}: kind {kind!r} does not know it: choose of "
                    f"{', '.join(names.values())}"
                )
        for name in ("lake", "repository", *(("base",) if "base" in names else ())):
            if not given.get(name):
                raise InvalidInputError(f"option {name!r} is missing: {_MISSING[name]}")
        ref, version, at = (given.get(name.lower(), "") for name in _REF)
        if (ref and version) or (version and at):
            raise InvalidInputError(
                "options ref, versionAsOf and timestampAsOf: give a ref, or a versionAsOf, which is "
                "the same, or a timestampAsOf, with a branch as the ref"
            )
        return cls(
            lake=given["lake"],
            repository=given["repository"],
            kind=kind,
            ref=ref or version,
            at=moment(at, "timestampAsOf").isoformat() if at else "",
            base=given.get("base", ""),
            prefix=given.get("prefix", ""),
            parallelism=_number(given, "parallelism", "tasks"),
            branch=given.get("branch", ""),
            starting_ref=given.get("startingref", ""),
            most=_number(given, "maxCommitsPerTrigger", "commits"),
        )

    def expression(self, default_branch: str) -> str:
        """Return the ref expression of the version."""
        ref = self.ref or default_branch
        return f"{ref}@{{{self.at}}}" if self.at else ref


_MISSING = {
    "lake": "give the lake's folder, or its graveler.toml",
    "repository": "give the name of the repository",
    "base": "give a ref that is compared with ref; for conflicts, the branch to merge ref into",
}


def _number(options: Mapping[str, str], name: str, of: str) -> int:
    given = options.get(name.lower(), "")
    try:
        number = whole_number(given) if given else 0
    except ValueError:
        number = -1
    if number < 0 or (given and not number):
        raise InvalidInputError(f"option {name}: {given!r}: give the number of {of}, from 1")
    return number
