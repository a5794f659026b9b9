"""The public interface of a repository's tags, protection, splitting and links."""

from collections.abc import Iterable, Iterator

from graveler.base import arguments as args
from graveler.base.arguments import RefLike
from graveler.base.clock import unix_us
from graveler.committed.splitting import Splitting
from graveler.committed.splitting import changed as changed_splitting
from graveler.display import listing
from graveler.errors import InvalidInputError
from graveler.model import Commit
from graveler.objects.address import AddressBook, linked_root, place_of
from graveler.reads.stores import Stores, undeclared
from graveler.refs.expression import resolve_to_name
from graveler.refs.reflog import RefMove, tag_moves
from graveler.repository import positions


class Place:
    """A part of a repository's public interface."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._stores.name}>"


class Tags(Place):
    """Names for commits. A tag does not move."""

    def create(self, name: str, ref: str | Commit | RefLike = "main") -> Commit:
        """Tag the commit that `ref` names, and return it.

        Tagging the same commit again is not an error.

        Raises:
            AlreadyExistsError: The tag names another commit.
        """
        name, ref = args.text(name, "name"), args.ref_text(ref, "ref", within=self._stores)
        commit = resolve_to_name(self._stores.refs, ref)
        self._stores.refs.tags.create(name, commit.id)
        return commit

    def list(self) -> dict[str, str]:
        """Return the commit ids, by tag."""
        return dict(self._stores.refs.tags.list())

    def delete(self, name: str) -> None:
        """Delete a tag; the commit stays.

        Raises:
            RefNotFoundError: There is no such tag.
        """
        self._stores.refs.tags.delete(args.text(name, "name"))

    def undelete(self, name: str) -> Commit:
        """Restore a deleted tag, and return the commit that it names.

        Raises:
            RefNotFoundError: The log has no deleted tag of that name.
            AlreadyExistsError: There is a tag of that name.
        """
        return positions.undelete_tag(self._stores, args.text(name, "name"))

    @listing
    def moves(self, name: str) -> Iterator[RefMove]:
        """Yield the creations and deletions of a tag, latest first."""
        return tag_moves(self._stores.refs, args.text(name, "name"))


class Protection(Place):
    """The actions that are forbidden on branches, by shell pattern (``main``, ``release-*``)."""

    def add(self, pattern: str, actions: Iterable[str] | None = None) -> None:
        """Protect the branches that match a pattern.

        Args:
            pattern: Shell pattern of the branches. The actions replace those of an existing
                pattern.
            actions: The forbidden actions: any of ``write``, ``commit``, ``merge`` (includes
                publishing runs), ``revert`` (includes cherry-pick), ``reset`` (hard reset and
                undo) and ``delete``. By default ``write``, ``commit``, ``reset`` and
                ``delete``, so that the branch moves only forward, by merges.

        Raises:
            InvalidInputError: There is no such action.
        """
        pattern = args.text(pattern, "pattern")
        actions = None if actions is None else args.texts(actions, "actions")
        self._stores.refs.protection.add(pattern, actions)

    def remove(self, pattern: str) -> None:
        """Remove a pattern; no error if it does not exist."""
        self._stores.refs.protection.remove(args.text(pattern, "pattern"))

    def list(self) -> dict[str, tuple[str, ...]]:
        """Return the forbidden actions by pattern, patterns sorted."""
        return self._stores.refs.protection.rules()


class SplittingPolicy(Place):
    """The policy that decides where new ranges end; existing ranges do not change."""

    def show(self) -> dict[str, str | int]:
        """Return the policy and its parameters, by name; sizes are bytes."""
        return dict(self._stores.splitting.encode())

    def set(
        self, splitting: Splitting | None = None, /, **parameters: str | int
    ) -> dict[str, str | int]:
        """Change the policy or its parameters, and return all of them.

        ::

            repo.splitting.set(policy="hash", max_bytes=8 << 20)

        Other processes follow within ten minutes. `Repository.pack` rewrites existing ranges with
        the new policy.

        Args:
            splitting: A whole policy, as for `Lake.create_repository`, instead of parameters.
            parameters: ``policy`` and its parameters, see ``docs/formats/range.md``. A new policy
                resets the other parameters to their defaults. A new ``max_bytes`` also changes the
                thresholds of ``directory``, unless they are given.

        Raises:
            InvalidInputError: There is no such policy or parameter, or they contradict each other.
        """
        if splitting is not None:
            whole = args.instance(
                splitting, "splitting", Splitting, "a graveler.committed.Splitting"
            )
            if parameters:
                raise InvalidInputError(
                    f"splitting and {', '.join(sorted(parameters))}: give a policy or parameters"
                )
            return dict(self._stores.policy.change(lambda _: whole).encode())
        made = self._stores.policy.change(lambda known: changed_splitting(known, parameters))
        return dict(made.encode())


class Links(Place):
    """The declared places of a repository: prefixes of S3 buckets, folders.

    A file outside the repository's storage can be linked and read only below a declared place.
    The key-value store holds the declaration. The credentials and the endpoint of a place are set
    in ``graveler.toml``, under ``[links."s3://bucket/prefix"]``. The default is ``[s3]``.
    """

    def allow(self, place: str) -> str:
        """Declare a place and return its canonical form; no error if it is declared.

        Args:
            place: ``s3://bucket/prefix``, ``file:///folder`` or the absolute path of a folder.
                It covers everything below it.

        Raises:
            InvalidInputError: It is not a place, no driver supports its scheme, or it is in the
                repository's own storage.
        """
        declared = self._place(place)
        self._stores.open_store(linked_root(declared))  # sends no request, but finds the driver
        self._stores.refs.links.add(declared)
        return declared

    def disallow(self, place: str) -> str:
        """Withdraw a declaration and return the place in its canonical form.

        Files linked there cannot be read until the place is declared again.
        """
        declared = self._place(place)
        self._stores.refs.links.remove(declared)
        return declared

    def accept(self, place: str) -> str:
        """Accept that local files were moved or replaced up to now, and return the canonical form.

        A linked file of equal size and time, but with another inode, is refused until then.

        Args:
            place: A linked file, or a folder for all linked files below it, in a declared place.
        """
        accepted = self._place(place)
        if not accepted.startswith("file://"):
            raise InvalidInputError(
                f"place {place!r} is not local: an ETag tells what a store has; link a changed "
                "object again"
            )
        links = self._stores.refs.links
        if accepted not in links.list() and place_of(accepted, links.list()) is None:
            raise undeclared(self._stores.name, accepted, links.list())
        links.accept(accepted, unix_us(self._stores.clock.now()))
        return accepted

    def list(self) -> list[str]:
        """Return the declared places, sorted."""
        return self._stores.refs.links.list()

    def _place(self, place: str) -> str:
        book = AddressBook(self._stores.storage)
        place = args.text(place, "place")
        declared = book.place(str(args.expand_home(place)) if place.startswith("~") else place)
        if declared == book.root or book.key_below(book.root, declared) is not None:
            raise InvalidInputError(
                f"place {place!r} is in the repository's own storage: its files are linked by "
                "their keys, data/…, and need no declaration"
            )
        return declared
