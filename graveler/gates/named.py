"""Gates by name: a gate as settings hold it, and back.

A built-in check is named by its kind and its parameters, anybody's own by where it is imported
from, ``package.module:name``; what is there may be a check, a gate, or where parameters are given
a function that makes one of them.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.fields import Fields
from graveler.gates.allowed import check_home, check_module
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn, built_in, known_kinds
from graveler.gates.gate import Check, Gate, as_gate
from graveler.gates.isolation.pickling import path_of
from graveler.records import decode_json, encode_json

__all__ = ["NamedGate", "named"]

_OPTIONS: Final = (
    "name", "prefix", "severity", "timeout", "isolated", "memory", "also", "reads",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NamedGate:
    """A gate as settings hold it.

    Attributes:
        check: Kind of a built-in check, or ``package.module:name``.
        parameters: Of the check.
        options: Fields of the gate that are not the usual ones: name, prefix, severity, …
    """

    check: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def gate(self, pattern: str, allowed: Collection[str]) -> Gate:
        """Return the gate; one that cannot be made here refuses, and says what to do.

        Args:
            pattern: Of the branches that require it.
            allowed: Modules that it may come from.
        """
        try:
            return self.made(allowed)
        except Exception as error:  # noqa: BLE001 - whatever an import may raise
            name = str(self.options.get("name") or self.check)
            reason = (
                f"gate {self.check!r}, which branches {pattern!r} require, cannot be made here "
                f"({type(error).__name__}: {error}): make it importable where this runs, or take "
                f"the requirement away with `graveler gates drop {pattern!r}`"
            )
            return Gate(name, _Missing(reason), reads="changes")

    def made(self, allowed: Collection[str] | None = None) -> Gate:
        """Return the gate, or raise whatever keeps it from being made.

        Args:
            allowed: Modules that it may come from; None where the caller has named it himself.
        """
        made = as_gate(self._check(allowed))
        options = {name: value for name, value in self.options.items() if name in _OPTIONS}
        if "also" in options:
            options["also"] = tuple(options["also"])
        fields = {name: getattr(made, name) for name in _OPTIONS}
        return Gate(check=made.check, **{**fields, **options})

    def _check(self, allowed: Collection[str] | None = None) -> Gate | Check:
        if ":" not in self.check:
            return built_in(self.check, self.parameters).gate()
        module, _, name = self.check.partition(":")
        if allowed is not None:
            check_module(module, allowed)
        __import__(module)
        import sys  # noqa: PLC0415 - one line needs it

        there: Any = sys.modules[module]
        for part in name.split("."):
            there = getattr(there, part)
            if allowed is not None:
                check_home(self.check, there, allowed)
        made: Gate | Check = there(**self.parameters) if self.parameters else there
        if not callable(made):
            raise TypeError(f"{self.check} is no gate but {type(made).__name__}")
        return made

    def encode(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {key: value for key, value in asdict(self).items() if value}

    @classmethod
    def decode(cls, raw: Any) -> "NamedGate":
        """Return what JSON has, or raise CorruptionError."""
        found = Fields(raw, "required gate")
        parameters, options = (found.mapping(name, {}) for name in ("parameters", "options"))
        return cls(found.text("check"), dict(parameters), dict(options))


@dataclass(frozen=True)
class _Missing:
    reason: str

    def __call__(self, candidate: Candidate) -> bool:
        raise MissingDependencyError(self.reason)


def named(
    gate: Gate | Check | str,
    parameters: Mapping[str, Any] | None = None,
    *,
    allowed: Collection[str] | None = None,
) -> NamedGate:
    """Return a gate as settings hold it.

    Args:
        gate: A gate, a check, the kind of a built-in check, or ``package.module:name``.
        parameters: Of the check, where it is given as text.
        allowed: Modules that it may come from; None: any.

    Raises:
        InvalidInputError: It has no name by which another process would find it, there is no
            such check, or its module is not allowed.
    """
    found = (
        _of_text(gate, parameters or {}, allowed)
        if isinstance(gate, str)
        else _of_gate(as_gate(gate), allowed)
    )
    return NamedGate.decode(decode_json(encode_json(found.encode()), "gate"))


def _of_text(
    text: str, parameters: Mapping[str, Any], allowed: Collection[str] | None
) -> NamedGate:
    made = NamedGate(text, parameters)
    try:
        made.made(allowed)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"gate {text!r}: {type(error).__name__}: {error}: give package.module:name of "
            f"something that can be imported here, or one of {', '.join(known_kinds())}"
        ) from error
    return made


def _of_gate(gate: Gate, allowed: Collection[str] | None) -> NamedGate:
    check = gate.check
    if isinstance(check, BuiltIn):
        usual = check.gate()
        where, parameters = check.kind, check.parameters()
    else:
        path = path_of(check)
        if path is None:
            raise InvalidInputError(
                f"gate {gate.name!r} cannot be required: another process could not import "
                f"{check!r}. Make it a function of a module that can be imported, or use a "
                f"built-in check ({', '.join(known_kinds())})"
            )
        where, parameters = path, {}
        usual = as_gate(NamedGate(path)._check(allowed))
    options = {
        name: getattr(gate, name)
        for name in _OPTIONS
        if getattr(gate, name) != getattr(usual, name)
    }
    return NamedGate(where, parameters, options)
