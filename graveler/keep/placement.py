"""Placement: in which order servers and volumes are tried for a block (rendezvous hashing)."""

from collections.abc import Iterable
from hashlib import md5

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
