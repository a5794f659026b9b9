"""Conversion of lakeFS entries to graveler entries: addresses, checksums, times.

An ETag of 32 hexadecimal digits at a relative address is the MD5 of the content that lakeFS stored.
It becomes the declared checksum, which reads verify. Any other ETag, of a multipart upload or of an
imported object, identifies the version of an S3 object. It becomes the entry's version, by which a
read detects a replaced object. In a folder, an ETag is neither of these and is omitted.
"""

import re

from graveler.base.arguments import check_entry
from graveler.base.clock import from_unix_us, unix_us
from graveler.base.names import check_path
from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.lakefs.messages import LakefsEntry
from graveler.model import ADDRESS_BYTES, CONTENT_TYPE_BYTES, TIMES, Entry
from graveler.objects.address import AddressBook, is_own, place_of
from graveler.reads.stores import Stores
from graveler.repository.writes.links import Owners

_MD5 = re.compile(r"[0-9a-f]{32}")
_SHORT = min(CONTENT_TYPE_BYTES, ADDRESS_BYTES) // 6
"""The number of characters that always fit into a record. Checking every entry would take a third
of the time."""
_VERSION = re.compile(r"[!#-\[\]-~]{1,200}")
"""ETags that are kept: without quotes, backslashes or control characters, and not too long."""
_FIRST_US, _LAST_US = map(unix_us, TIMES)


class EntryMaker:
    """Makes the entries of one import."""

    def __init__(self, stores: Stores, root: str, places: tuple[str, ...], *, etags: bool) -> None:
        self._root = root
        self._places = places
        self._etags = etags
        self._book = AddressBook(stores.storage)
        self._owners = Owners(stores.neighbours, self._book)

    def check_root(self) -> None:
        """Refuse a namespace whose files may not be linked."""
        self._address(f"{self._root}/data/any")

    def make(self, path: str, found: LakefsEntry) -> Entry:
        """Return the entry at a path."""
        address = self._address(
            f"{self._root}/{found.address}" if found.relative else found.address
        )
        checksum, version = self._etag(found, address) if self._etags else ("", "")
        mtime = found.mtime_us
        entry = Entry(
            path=path,
            address=address,
            size=found.size,
            checksum=checksum,
            content_type=found.content_type,
            mtime=(
                from_unix_us(mtime)
                if mtime is not None and _FIRST_US <= mtime <= _LAST_US
                else None
            ),
            metadata=found.metadata,
            version=version,
        )
        if (
            found.metadata
            or found.size < 0
            or len(found.content_type) > _SHORT
            or len(found.address) > _SHORT
        ):
            check_entry(entry)
        return entry

    def _etag(self, found: LakefsEntry, address: str) -> tuple[str, str]:
        etag = found.etag.strip('"')
        if found.relative and _MD5.fullmatch(etag):
            return f"md5:{etag}", ""
        if address.startswith("s3:") and _VERSION.fullmatch(etag):
            return "", f'etag:"{etag}"'
        return "", ""

    def _address(self, uri: str) -> str:
        address = self._book.stored_form(uri)
        if is_own(address):
            raise InvalidInputError(
                f"{uri!r} lies in the repository's own storage: give the repository a storage of "
                "its own, because garbage collection would delete what only lakeFS needs"
            )
        self._owners.check(address)
        if place_of(address, self._places) is None:
            folder = (
                self._root if address.startswith(f"{self._root}/") else address.rpartition("/")[0]
            )
            raise PermissionDeniedError(
                f"{address!r} lies in no place that may be linked from (declared: "
                f"{', '.join(self._places) or 'none'}): allow it, with allow=[{folder!r}] or "
                f"--allow {folder}; places are s3://bucket/prefix and folders"
            )
        return address


def odd_path(key: bytes) -> InvalidInputError | None:
    """Return the reason why a lakeFS key is not a valid path, or None if it is valid."""
    try:
        check_path(key.decode())
    except UnicodeDecodeError:
        return InvalidInputError(f"path {key!r} is not UTF-8")
    except InvalidInputError as error:
        return error
    return None
