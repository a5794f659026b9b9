"""Placement: in which order servers and volumes are tried for a block (rendezvous hashing), and its copies."""

import logging
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import md5

from graveler.errors import InvalidInputError
from graveler.keep.locators import Locator
from graveler.keep.transport import Answer

_CONFIRMED = re.compile(r"\s*([^=,\s]+)\s*=\s*([0-9]+)\s*")
_COUNT = re.compile(r"[0-9]{1,9}")
_log = logging.getLogger(__name__)

_SUFFIX = 15
"""The characters of a UUID that count: ``zzzzz-bi6l4-<these>``."""


def weight(digest: str, uuid: str) -> str:
    """Return the weight of a server or volume for a block, 32 hexadecimal digits."""
    return md5(f"{digest}{uuid[-_SUFFIX:]}".encode(), usedforsecurity=False).hexdigest()


def servers_for(digest: str, uuids: Iterable[str]) -> list[str]:
    """Return the servers in the order in which clients try them, the heaviest first."""
    return sorted(uuids, key=lambda uuid: weight(digest, uuid), reverse=True)


def volumes_for(digest: str, uuids: Iterable[str]) -> list[str]:
    """Return the volumes of a server in the order in which it tries them, the lightest first."""
    return sorted(uuids, key=lambda uuid: weight(digest, uuid))


@dataclass
class Copies:
    """The copies of a block that servers have confirmed."""

    wanted: int
    classes: frozenset[str]
    locator: Locator
    total: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    tracked: bool = True
    volumes: set[str] = field(default_factory=set)

    @property
    def missing_classes(self) -> list[str]:
        """The classes that have too few copies, as far as the servers say."""
        return sorted(name for name in self.classes if self.by_class[name] < self.wanted)

    @property
    def missing(self) -> int:
        """The fewest copies that are missing, in all or of a class; 0 if none is missing."""
        counts = [self.total]
        if self.tracked:
            counts += [self.by_class[name] for name in self.classes]
        return min((self.wanted - each for each in counts if each < self.wanted), default=0)

    def add(self, answer: Answer) -> str:
        """Count what a server has stored. Return what is wrong with its answer, or ""."""
        text = answer.body.decode("utf-8", "replace").strip()
        stored = answer.headers.get("X-Keep-Replicas-Stored", "1").strip()
        try:
            locator = Locator.parse(text)
            is_right = str(locator) == text and locator.bare == self.locator.bare
        except InvalidInputError:
            locator, is_right = self.locator, False
        if not (is_right and _COUNT.fullmatch(stored)):
            return f"stored {stored[:20]!r} copies of {text[:99]!r}"
        volumes = set(answer.headers.get("X-Graveler-Volumes", "").replace(",", " ").split())
        if not volumes.isdisjoint(self.volumes):
            return (
                "has the same volume as another address: give each server one address, and folders of "
                "its own"
            )
        self.volumes |= volumes
        confirmed = answer.headers.get("X-Keep-Storage-Classes-Confirmed")
        if confirmed is None and self.classes and self.tracked:
            _log.warning("a Keep server does not know storage classes: they are not confirmed")
            self.tracked = False
        for name, count in _CONFIRMED.findall(confirmed or ""):
            self.by_class[name] += int(count)
        self.total += int(stored)
        self.locator = locator
        return ""

    def __str__(self) -> str:
        found = "".join(f", {name}={self.by_class[name]}" for name in sorted(self.classes))
        return f": {self.total} of {self.wanted} copies are confirmed{found}"
