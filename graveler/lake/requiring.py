"""The gates of a repository as its users see them: what was said, and what branches require."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from graveler.arguments import RefLike, count, instance, optional, ref_text, text
from graveler.errors import RefNotFoundError
from graveler.gates import Gate, Judgement, NamedGate, Verdicts, named
from graveler.gates.gate import Check
from graveler.model import Commit
from graveler.publishing import RequiredGates
from graveler.reads import Stores
from graveler.refs import resolve


class Gates:
    """What gates have said of a repository's candidates, and which ones its branches require."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def require(self, pattern: str, *gates: Gate | Check | str) -> None:
        """Have branches that match a pattern require gates, whoever moves them, and however.

        ::

            repo.gates.require("main", checks.schema("output/"), "flights.checks:no_empty_hours")

        Merges, publishing of runs and ingestion, commits, revert, cherry-pick, hard reset and
        undo are refused where one of them refuses; so is making a branch of such a name. The
        branches of runs are not judged before they are published.

        Args:
            pattern: Shell pattern (``main``, ``release-*``); one that is there already requires
                these gates instead of its own.
            gates: Built-in checks, gates and functions that can be imported, or
                ``package.module:name`` of such.

        Raises:
            InvalidInputError: Another process could not find one by its name, its module is not
                among those that this process takes gates from (``[gates] modules`` of
                ``graveler.toml``), none is given, or two have one name.
        """
        pattern = text(pattern, "pattern")
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
        """Have branches that match a pattern require one gate more, given by its name.

        One that has the same name already is replaced.

        Args:
            pattern: Which branches.
            check: Kind of a built-in check, or ``package.module:name``.
            parameters: Of the check.
            options: Fields of the gate: name, severity, timeout (seconds), prefix, …
        """
        pattern, check = text(pattern, "pattern"), text(check, "check")
        optional(instance, parameters, "parameters", kind=Mapping, expected="a mapping")
        timeout = options.get("timeout")
        if isinstance(timeout, timedelta):
            options["timeout"] = timeout.total_seconds()
        allowed = self._stores.gate_modules
        there = named(check, parameters, allowed=allowed)
        gate = NamedGate(there.check, there.parameters, {**there.options, **options})
        gate.made(allowed)
        RequiredGates(self._stores).add(pattern, gate)

    def drop(self, pattern: str) -> None:
        """Have branches that match a pattern require nothing by it; no error if they do not."""
        pattern = text(pattern, "pattern")
        RequiredGates(self._stores).drop(pattern)

    def required(self) -> dict[str, tuple[Gate, ...]]:
        """Return the gates that are required, by pattern."""
        return {
            pattern: tuple(gate.gate(pattern, self._stores.gate_modules) for gate in gates)
            for pattern, gates in RequiredGates(self._stores).rules().items()
        }

    def settings(self) -> dict[str, tuple[NamedGate, ...]]:
        """Return what is required as settings hold it, by pattern; nothing is imported."""
        return RequiredGates(self._stores).rules()

    def judgements(self, *, limit: int | None = None) -> Iterator[Judgement]:
        """Yield what was judged, the latest first.

        Args:
            limit: At most so many.
        """
        optional(count, limit, "limit")
        found = Verdicts(self._stores.kv, self._stores.uid).recent()
        return islice(found, None if limit is None else max(limit, 0))

    def judgement(self, ref: str | Commit | RefLike) -> Judgement:
        """Return the last judgement on the commit that `ref` names.

        Raises:
            RefNotFoundError: There is no such commit, or no gate has judged it.
        """
        ref = ref_text(ref, "ref")
        kept = Verdicts(self._stores.kv, self._stores.uid)
        judgement = kept.on(ref) or kept.on(resolve(self._stores.refs, ref).id)
        if judgement is None:
            raise RefNotFoundError(
                f"no gate has judged {ref!r}: `graveler gates list` shows what was judged"
            )
        return judgement
