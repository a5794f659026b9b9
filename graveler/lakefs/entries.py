"""Entries of graveler made of lakeFS's: addresses, checksums, times.

An ETag of 32 hexadecimal digits at a relative address is an MD5 that lakeFS computed of what it
stored: it becomes the declared checksum, which reads verify. Any other ETag, of a multipart upload
or of an object that was imported, is what S3 calls the version of the object: it is kept as the
entry's version, by which a read tells whether the object was replaced. In a folder an ETag is
nothing of either, and is left out.
"""

import re
from typing import Final

from graveler.arguments import check_entry
from graveler.clock import from_unix_us, unix_us
from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.lakefs.messages import LakefsEntry
from graveler.model import ADDRESS_BYTES, CONTENT_TYPE_BYTES, TIMES, Entry
from graveler.names import check_path
from graveler.objects.address import AddressBook, is_own, place_of
from graveler.reads import Stores
from graveler.repository.links import Owners

_MD5: Final = re.compile(r"[0-9a-f]{32}")
_SHORT: Final = min(CONTENT_TYPE_BYTES, ADDRESS_BYTES) // 6
"""Characters that fit into a record whatever they are; checking each entry costs a third."""
_VERSION: Final = re.compile(r"[!#-\[\]-~]{1,200}")
"""ETags that are kept: no quotes, backslashes or controls, and short enough for a version."""
_FIRST_US, _LAST_US = map(unix_us, TIMES)


class EntryMaker:
    """Makes the entries of one import.

    Args:
        stores: The repository.
        root: URI of the storage namespace, in its one form.
        places: Where files may be linked from, in their one form.
        etags: Whether ETags are what lakeFS or S3 said of the object that is there now.
    """

    def __init__(self, stores: Stores, root: str, places: tuple[str, ...], *, etags: bool) -> None:
        self._root = root
        self._places = places
        self._etags = etags
        self._book = AddressBook(stores.storage)
        self._owners = Owners(stores.neighbours, self._book)

    def check_root(self) -> None:
        """Refuse a namespace whose files may not be linked.

        Raises:
            PermissionDeniedError: It lies in no declared place.
            InvalidInputError: It lies in the repository's own storage, or in another one's.
        """
        self._address(f"{self._root}/data/any")

    def make(self, path: str, found: LakefsEntry) -> Entry:
        """Return the entry at a path.

        Raises:
            InvalidInputError: A field is more than an entry holds, or the address is none.
            PermissionDeniedError: The file lies in no declared place.
        """
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
        """Return checksum and version."""
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
    """Return why a key of lakeFS is no path of graveler; None: it is one."""
    try:
        check_path(key.decode())
    except UnicodeDecodeError:
        return InvalidInputError(f"path {key!r} is not UTF-8")
    except InvalidInputError as error:
        return error
    return None
