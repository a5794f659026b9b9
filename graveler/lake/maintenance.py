"""Maintenance of a repository: the rule of packing, and what a scheduler runs daily."""

from collections.abc import Iterable

from graveler.arguments import count, optional, texts
from graveler.errors import InvalidInputError
from graveler.reads import Stores
from graveler.refs.pack_rule import PackRule, PackRules


class Packing:
    """When branches are packed: by a publish where it is cheap, else by `Repository.maintain`."""

    def __init__(self, stores: Stores) -> None:
        self._rules = PackRules(stores.refs.settings)
        self._stores = stores

    def __repr__(self) -> str:
        return f"<Packing of {self._stores.name}>"

    def show(self) -> PackRule:
        """Return the rule."""
        return self._rules.get()

    def set(self, *, after: int | None = None, branches: Iterable[str] | None = None) -> PackRule:
        """Change the rule, and return it.

        ::

            repo.packing.set(after=200, branches=["main", "release-*"])

        Args:
            after: A branch is packed once its head has this many badly cut ranges; 0 for never.
            branches: Shell patterns of the branches that are packed; an empty list stands for the
                default branch of the repository.

        Raises:
            InvalidInputError: A number below 0, an empty pattern, or nothing to change.
        """
        if after is None and branches is None:
            raise InvalidInputError("nothing to set: give after, branches or both")
        patterns = None if branches is None else texts(branches, "branches")
        return self._rules.set(after=optional(count, after, "after"), branches=patterns)
