"""The public interface of a repository's gates; most verbs of the command line do without it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from graveler.base import arguments as args
from graveler.base.arguments import RefLike
from graveler.display import Rows, listing
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.gates import Gate, Judgement, NamedGate, Verdicts, named
from graveler.gates.gate import OPTIONS, Check, as_gates
from graveler.lake.places import Place
from graveler.model import Commit
from graveler.publishing.panel import RequiredGates, Trial, trials
from graveler.refs.expression import resolve


class Gates(Place):
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
