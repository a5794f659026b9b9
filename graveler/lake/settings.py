"""The settings of a repository, as its users see them: protection and links."""

from collections.abc import Iterable

from graveler.arguments import text, texts
from graveler.errors import InvalidInputError
from graveler.objects.address import AddressBook, root_of
from graveler.reads import Stores


class Protection:
    """What may not be done to branches, by shell pattern (``main``, ``release-*``)."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<Protection of {self._stores.name}>"

    def add(self, pattern: str, actions: Iterable[str] | None = None) -> None:
        """Protect the branches that match a pattern.

        Args:
            pattern: Which branches. An existing pattern gets these actions instead of its own.
            actions: What is forbidden there: any of ``write``, ``commit``, ``merge`` (includes
                publishing runs), ``revert`` (includes cherry-pick), ``reset`` (hard reset and
                undo) and ``delete``. By default ``write``, ``commit``, ``reset`` and
                ``delete``, so that the branch only goes forward, by merges.

        Raises:
            InvalidInputError: There is no such action.
        """
        pattern = text(pattern, "pattern")
        actions = None if actions is None else texts(actions, "actions")
        self._stores.refs.protection.add(pattern, actions)

    def remove(self, pattern: str) -> None:
        """Remove a pattern; no error if it is not there."""
        self._stores.refs.protection.remove(text(pattern, "pattern"))

    def list(self) -> dict[str, tuple[str, ...]]:
        """Return the forbidden actions by pattern, patterns sorted."""
        return self._stores.refs.protection.rules()


class Links:
    """The declared places of a repository: prefixes of S3 buckets, folders.

    A file outside the repository's storage is linked, and read, only below a declared place.
    The key-value store holds the declaration. The credentials and the endpoint of a place stand
    in ``graveler.toml`` under ``[links."s3://bucket/prefix"]``; the default is ``[s3]``.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<Links of {self._stores.name}>"

    def allow(self, place: str) -> str:
        """Declare a place and return its canonical form; no error if it is declared.

        Args:
            place: ``s3://bucket/prefix``, ``file:///folder`` or the absolute path of a folder.
                It covers everything below it.

        Raises:
            InvalidInputError: It is not a place, no driver knows its scheme, or it lies in the
                repository's own storage.
        """
        declared = self._place(place)
        self._stores.open_store(root_of(declared))  # sends no request, but finds the driver
        self._stores.refs.links.add(declared)
        return declared

    def disallow(self, place: str) -> str:
        """Withdraw a declaration and return the place in its canonical form.

        Files linked there cannot be read until the place is declared again.
        """
        declared = self._place(place)
        self._stores.refs.links.remove(declared)
        return declared

    def list(self) -> list[str]:
        """Return the declared places, sorted."""
        return self._stores.refs.links.list()

    def _place(self, place: str) -> str:
        book = AddressBook(self._stores.storage)
        declared = book.place(text(place, "place"))
        if declared == book.root or book.key_below(book.root, declared) is not None:
            raise InvalidInputError(
                f"place {place!r} is in the repository's own storage: its files are linked by "
                "their keys, data/…, and need no declaration"
            )
        return declared
