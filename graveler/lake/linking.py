"""The foreign places that a repository may link to, as its users see them."""

from graveler.arguments import text
from graveler.errors import InvalidInputError
from graveler.objects.address import AddressBook, root_of
from graveler.repository import Stores

__all__ = ["Links"]


class Links:
    """The declared places of a repository: prefixes of S3 buckets, folders.

    A file outside of the repository's storage is linked, and read, only below a declared place.
    The declaration is kept in the key-value store; credentials and endpoint of a place stand in
    ``graveler.toml``, under ``[links."s3://bucket/prefix"]``, else those of ``[s3]`` are taken.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<Links of {self._stores.name}>"

    def allow(self, place: str) -> str:
        """Declare a place; no error where it is declared. Return it in its one form.

        Args:
            place: ``s3://bucket/prefix``, ``file:///folder`` or a folder's absolute path. It
                covers all that lies below it.

        Raises:
            InvalidInputError: It is no place, no driver knows its scheme, or it lies in the
                repository's own storage.
        """
        declared = self._place(place)
        self._stores.open_store(root_of(declared))  # asks for nothing, but finds the driver
        self._stores.refs.links.add(declared)
        return declared

    def disallow(self, place: str) -> str:
        """Declare a place no more: what was linked there cannot be read until it is again."""
        declared = self._place(place)
        self._stores.refs.links.remove(declared)
        return declared

    def list(self) -> list[str]:
        """Return the declared places, sorted."""
        return self._stores.refs.links.list()

    def _place(self, place: str) -> str:
        book = AddressBook(self._stores.storage)
        found = book.place(text(place, "place"))
        if found == book.root or book.key_below(book.root, found) is not None:
            raise InvalidInputError(
                f"place {place!r} is in the repository's own storage: its files are linked by "
                "their keys, data/…, and need no declaration"
            )
        return found
