"""Gates by name, as settings store them: a built-in check by its kind, any other by ``package.module:name``.

A writer to the key-value store must not choose the code that runs here. So the configuration of the process
lists the allowed modules, and of these only gates, and functions that are marked as factories of gates, are
called.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import Any

from graveler.base.records import Schema
from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn, gate_of
from graveler.gates.gate import BUILT_IN, OPTIONS, Check, Gate, as_gate, is_factory
from graveler.gates.isolation.pickling import path_of

_OURS = "graveler.gates"


@dataclass(frozen=True, slots=True)
class NamedGate:
    """A gate as settings store it.

    Attributes:
        check: Kind of a built-in check, or ``package.module:name``.
        parameters: Parameters of the check.
        options: Fields of the gate that differ from the defaults: name, prefix, severity, …
    """

    check: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def gate(self, pattern: str, allowed: Collection[str]) -> Gate:
        """Return the gate. If it cannot be made here, return a gate that refuses with a hint."""
        try:
            return self.made(allowed)
        except Exception as error:  # noqa: BLE001 - an import may raise anything
            reason = (
                f"gate {self.check!r}, which branches {pattern!r} require, cannot be made here "
                f"({type(error).__name__}: {error}): make it importable where this runs, or take "
                f"the requirement away with `graveler gates drop {pattern!r}`"
            )

        def missing(candidate: Candidate) -> bool:
            raise MissingDependencyError(reason)

        return Gate(str(self.options.get("name") or self.check), missing, reads="changes")

    def made(self, allowed: Collection[str] | None = None) -> Gate:
        """Return the gate, or raise the error that prevents it."""
        options = {name: value for name, value in self.options.items() if name in OPTIONS}
        try:
            check = self._check(allowed)
        except (SystemExit, GeneratorExit) as error:
            raise ImportError(f"{self.check} ends the process: {error!r}") from error
        return replace(as_gate(check), **options)

    def _check(self, allowed: Collection[str] | None) -> Gate | Check:
        if ":" not in self.check:
            return gate_of(self.check, self.parameters)
        module, _, name = self.check.partition(":")
        if allowed is not None:
            _check_module(module, allowed)
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
            if allowed is not None:
                _check_home(self.check, value, allowed)
        if allowed is not None:
            _check_marked(self.check, value, self.parameters)
        made: Gate | Check = value(**self.parameters) if self.parameters else value
        if not callable(made):
            raise TypeError(f"{self.check} is no gate but {type(made).__name__}")
        return made

    def encode(self) -> dict[str, Any]:
        """Return the gate as JSON values."""
        return _GATE.plain(self)

    @staticmethod
    def decode(raw: Any) -> "NamedGate":
        """Return the gate of JSON values, or raise CorruptionError."""
        return _GATE.read(raw, _GATE.what)


_GATE = Schema(NamedGate, "required gate", sparse=("parameters", "options"))


def named(
    gate: Gate | Check | str,
    parameters: Mapping[str, Any] | None = None,
    *,
    allowed: Collection[str] | None = None,
) -> NamedGate:
    """Return a gate as settings store it.

    Args:
        gate: A gate, a check, the kind of a built-in check, or ``package.module:name``.
        parameters: Parameters of a check that is given as text.
        allowed: Modules that the gate may come from; None for any.

    Raises:
        InvalidInputError: Another process cannot import the check, there is no such check, or
            its module is not allowed.
    """
    if isinstance(gate, str):
        made = _of_text(gate, parameters or {}, allowed)
    else:
        made = _of_gate(as_gate(gate), allowed)
    return _GATE.decode(_GATE.encode(made))


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
            f"something that can be imported here, or one of {', '.join(sorted(BUILT_IN))}"
        ) from error
    return made


def _of_gate(gate: Gate, allowed: Collection[str] | None) -> NamedGate:
    check = gate.check
    if isinstance(check, BuiltIn):
        plain = NamedGate(check.kind, check.parameters)
    else:
        path = path_of(check)
        if path is None:
            raise InvalidInputError(
                f"gate {gate.name!r} cannot be required: another process could not import "
                f"{check!r}. Make it a function of a module that can be imported, or use a "
                f"built-in check ({', '.join(sorted(BUILT_IN))})"
            )
        plain = NamedGate(path)
    usual = plain.made(allowed)
    values = {name: getattr(gate, name) for name in OPTIONS}
    options = {name: value for name, value in values.items() if value != getattr(usual, name)}
    return replace(plain, options=options)


def _is_within(module: str, allowed: Collection[str]) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in allowed)


def _check_module(module: str, allowed: Collection[str]) -> None:
    """Refuse a module that is not allowed, before it is imported."""
    if not _is_within(module, allowed):
        known = ", ".join(sorted(allowed)) or "none"
        raise InvalidInputError(
            f"this process takes required gates from no module {module!r} (allowed: {known}): to "
            f'allow it, add modules = ["{module}"] to [gates] of graveler.toml, or {module} to the '
            "variable GRAVELER_GATE_MODULES"
        )


def _check_marked(path: str, value: Any, parameters: Mapping[str, Any]) -> None:
    """Refuse an object that its author did not mean to be called by settings."""
    if parameters and not is_factory(value):
        raise InvalidInputError(
            f"gate {path!r} has parameters and is not marked as a factory of gates: mark the function "
            "that returns the gate with @graveler.gate_factory"
        )
    if not parameters and not isinstance(value, (Gate, BuiltIn)):
        raise InvalidInputError(
            f"gate {path!r} is not marked as a gate: mark the function with @graveler.gate"
        )


def _check_home(path: str, value: Any, allowed: Collection[str]) -> None:
    """Refuse an object that an allowed module only imports, such as ``flights.checks:os.system``."""
    home = getattr(value, "__module__", "")
    if isinstance(value, ModuleType) or not (
        isinstance(home, str) and _is_within(home, (*allowed, _OURS))
    ):
        raise InvalidInputError(
            f"gate {path!r} is not made in an allowed module, only imported there: name the module "
            "that makes it"
        )
