"""Which keys of the repository's storage entries name."""

from collections.abc import Iterable

from graveler.objects.address import is_own
from graveler.records import decode_entry, decode_value

__all__ = ["keys_of_entry"]


def keys_of_entry(key: bytes, value: bytes) -> Iterable[bytes]:
    """Return the key that an entry names, if its bytes are in the repository's own storage.

    Addresses are stored in one form: an own one is a key, and a full URI is never an own one.

    Args:
        key: The entry's path.
        value: Its value record.
    """
    data = decode_value(value)[1]
    end = data.find(b'"', 2)
    if data.startswith(b'["data/') and b"\\" not in data[:end]:
        return (data[2:end],)  # as nearly every entry has it: nothing else need be decoded
    address = decode_entry(key, value).address
    return (address.encode("utf-8", "surrogatepass"),) if is_own(address) else ()
