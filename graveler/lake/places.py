"""The public interface of a repository's tags, protection, splitting, links and gates."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from graveler.base import arguments as args
from graveler.base.arguments import RefLike
from graveler.base.clock import unix_us
from graveler.committed.splitting import Splitting
from graveler.committed.splitting import changed as changed_splitting
from graveler.display import Rows, listing
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.gates import Gate, Judgement, NamedGate, Verdicts, named
from graveler.gates.gate import OPTIONS, Check, as_gates
from graveler.model import Commit
from graveler.objects.address import AddressBook, linked_root, place_of
from graveler.publishing.panel import RequiredGates, Trial, trials
from graveler.reads.stores import Stores, undeclared
from graveler.refs.expression import resolve, resolve_to_name
from graveler.refs.reflog import RefMove, tag_moves
from graveler.repository import positions


class _Place:
    """A part of a repository's public interface."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._stores.name}>"


class Tags(_Place):
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


class Protection(_Place):
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


class SplittingPolicy(_Place):
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


class Links(_Place):
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


class Gates(_Place):
    """The gates that the branches of a repository require, and the verdicts of all gates."""

    def require(self, pattern: str, *gates: Gate | Check | str) -> None:
        """Make the branches that match a pattern require gates.

        ::

            repo.gates.require("main", checks.schema("output/"), "flights.checks:no_empty_hours")

        If one of them refuses, the branch does not move: not by a merge, a run, an ingestion, a
        commit, a revert, a cherry-pick, a hard reset or an undo. A branch with a matching name is
        not created either. The branches of runs are judged when they are published.

        Args:
            pattern: Shell pattern (``main``, ``release-*``). The gates replace those of an existing
                pattern.
            gates: Built-in checks, gates and functions that can be imported, or their names,
                ``package.module:name``.

        Raises:
            InvalidInputError: No gate is given, two have the same name, another process could not
                find one by its name, or its module is not allowed by ``[gates] modules`` of
                ``graveler.toml``.
        """
        pattern = args.text(pattern, "pattern")
        RequiredGates(self._stores).require(
            pattern, [named(gate, allowed=self._stores.gate_modules) for gate in gates]
        )

    def require_named(
        self,
        pattern: str,
        check: str,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Make the branches that match a pattern require one more gate, given by its name.

        A required gate of the same name is replaced.

        Args:
            pattern: Shell pattern of the branches.
            check: Kind of a built-in check, or ``package.module:name``.
            parameters: Parameters of the check.
            options: Fields of the gate: name, severity, timeout (seconds), prefix, …
        """
        pattern, check = args.text(pattern, "pattern"), args.text(check, "check")
        args.optional(args.instance, parameters, "parameters", kind=Mapping, expected="a mapping")
        if odd := [name for name in options if name not in OPTIONS]:
            raise InvalidInputError(
                f"gate {check!r}: no option {odd[0]!r}: a gate has {', '.join(OPTIONS)}"
            )
        timeout = options.get("timeout")
        if isinstance(timeout, timedelta):
            options["timeout"] = timeout.total_seconds()
        allowed = self._stores.gate_modules
        default = named(check, parameters, allowed=allowed)
        gate = NamedGate(default.check, default.parameters, {**default.options, **options})
        gate.made(allowed)
        RequiredGates(self._stores).add(pattern, gate)

    def drop(self, pattern: str) -> None:
        """Remove the gates that a pattern requires; no error if it requires none."""
        RequiredGates(self._stores).drop(args.text(pattern, "pattern"))

    def required(self) -> dict[str, tuple[Gate, ...]]:
        """Return the required gates, by pattern."""
        return {
            pattern: tuple(gate.gate(pattern, self._stores.gate_modules) for gate in gates)
            for pattern, gates in RequiredGates(self._stores).rules().items()
        }

    def settings(self) -> dict[str, tuple[NamedGate, ...]]:
        """Return the names of the required gates, by pattern; nothing is imported."""
        return RequiredGates(self._stores).rules()

    def trials(
        self,
        gates: Iterable[Gate | Check] | Gate | Check,
        over: str = "",
        *,
        into: str = "",
    ) -> tuple[Trial, ...]:
        """Return what gates would have said of earlier commits, the oldest first; nothing moves.

        Args:
            gates: The gates to try.
            over: ``LEFT..RIGHT``: the commits of the right ref after the left one; "" for the last 30 of
                the branch.
            into: The branch that the gates see as the target; else the default branch.
        """
        into = into or self._stores.default_branch
        return Rows(
            trials(self._stores, as_gates(gates), args.text(over, "over", empty=True), into)
        )

    @listing
    def judgements(self, *, limit: int | None = None) -> Iterator[Judgement]:
        """Yield the judgements, the latest first.

        Args:
            limit: At most this many.
        """
        args.optional(args.count, limit, "limit")
        judgements = Verdicts(self._stores).recent()
        return islice(judgements, limit)

    def judgement(self, ref: str | Commit | RefLike) -> Judgement:
        """Return the last judgement on the commit that `ref` names.

        Raises:
            RefNotFoundError: There is no such commit, or no gate has judged it.
        """
        ref = args.ref_text(ref, "ref", within=self._stores)
        verdicts = Verdicts(self._stores)
        judgement = verdicts.on(ref) or verdicts.on(resolve(self._stores.refs, ref).id)
        if judgement is None:
            raise RefNotFoundError(
                f"no gate has judged {ref!r}: `graveler gates list` shows what was judged"
            )
        return judgement
