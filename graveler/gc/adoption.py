"""The adoption of data files whose addresses lack the id of the storage; key ``settings/adoption``.

Version 0.2 named files in a form that other programs also use. Beside files of others, such a file
is deleted only after it was listed and the user agreed.
"""

from dataclasses import asdict, dataclass
from typing import Any

from graveler.base.records import FORMAT, Fields
from graveler.refs.settings import Setting


@dataclass(frozen=True, slots=True)
class Adoption:
    """The times of the store's clock until which files were listed and adopted.

    Attributes:
        listed: The time of the last list, microseconds since 1970; 0 for none.
        agreed: Unnamed files that are older are graveler's; 0 for none.
    """

    listed: int = 0
    agreed: int = 0


@dataclass(frozen=True, slots=True)
class Adoptable:
    """Files that nothing names, and that are collected once they are adopted."""

    keys: tuple[str, ...] = ()
    bytes: int = 0


def _encode(adoption: Adoption) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(adoption)}


def _read(fields: Fields) -> Adoption:
    return Adoption(fields.number("listed"), fields.number("agreed"))


ADOPTION = Setting("adoption", "adoption of files", default=Adoption(), encode=_encode, read=_read)
