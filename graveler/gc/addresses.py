"""Which keys of the repository's storage an entry's address may stand for."""

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from graveler.records import decode_entry, decode_value

__all__ = ["DATA", "keys_named", "keys_of_entry"]

DATA: Final = "data/"
"""Where the files of entries lie; nothing else is ever condemned, but for tables."""


def keys_named(address: str) -> Iterator[bytes]:
    """Yield the keys below ``data/`` that an address may stand for.

    A full URI may name the repository's own storage, in one of several spellings (``s3a://``,
    percent signs, another mount). So everything that could be meant counts as named: a file
    kept too long is cheaper than one that is missed.
    """
    if "://" not in address:
        yield address.encode("utf-8", "surrogatepass")
        return
    for text in {address, unquote(address)}:
        at = text.find("/" + DATA)
        while at >= 0:
            yield text[at + 1 :].encode("utf-8", "surrogatepass")
            at = text.find("/" + DATA, at + 1)


def keys_of_entry(key: bytes, value: bytes) -> Iterable[bytes]:
    """Return the keys below ``data/`` that the address of an entry may stand for.

    Args:
        key: The entry's path.
        value: Its value record.
    """
    data = decode_value(value)[1]
    end = data.find(b'"', 2)
    if data.startswith(b'["data/') and b"\\" not in data[:end]:
        return (data[2:end],)  # as nearly every entry has it: nothing else need be decoded
    return keys_named(decode_entry(key, value).address)
