"""The tags of a repository, as its users see them."""

from collections.abc import Iterator

from graveler.arguments import RefLike, ref_text, text
from graveler.model import Commit
from graveler.reads import Stores
from graveler.refs import RefMove, resolve_to_name, tag_moves
from graveler.repository import branches


class Tags:
    """Names for commits. A tag does not move."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<Tags of {self._stores.name}>"

    def create(self, name: str, ref: str | Commit | RefLike = "main") -> Commit:
        """Tag the commit that `ref` names, and return it.

        Tagging the same commit again is no error.

        Raises:
            AlreadyExistsError: The tag names another commit.
        """
        name, ref = text(name, "name"), ref_text(ref, "ref")
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
        self._stores.refs.tags.delete(text(name, "name"))

    def undelete(self, name: str) -> Commit:
        """Make a deleted tag again, at the commit that it named, and return the commit.

        Raises:
            RefNotFoundError: The log has no deleted tag of that name.
            AlreadyExistsError: There is a tag of that name.
        """
        return branches.undelete_tag(self._stores, text(name, "name"))

    def moves(self, name: str) -> Iterator[RefMove]:
        """Yield when and by whom a tag was created and deleted, latest first."""
        return tag_moves(self._stores.refs, text(name, "name"))
