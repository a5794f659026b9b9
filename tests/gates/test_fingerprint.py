"""Fingerprints differ between different rules. A rule that cannot be followed has none."""

import importlib
import os
import pathlib
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

import graveler
from graveler import checks
from graveler.errors import GateFailedError
from graveler.gates import Gate
from tests.gates import samples

RULES = """
import dataclasses, datetime, decimal, enum, functools, pathlib, re
import values
{}
def known(candidate):
    return {}
"""
ALLOWED = {"UA"}

# how a rule is written, with its answer; X takes another number when the rule changes
WAYS = {
    "the code": ("", "X"),
    "a constant": ("A = X", "A"),
    "a list": ("A = ['a', X]", "A"),
    "a tuple": ("A = ('a', X)", "A"),
    "a set": ("A = {'a', X}", "A"),
    "a set of tuples": ("A = {('a', X), ('b', 0)}", "A"),
    "a dict's value": ("A = {'a': X}", "A"),
    "a dict's key": ("A = {X: 'a'}", "A"),
    "deep inside": ("A = {'a': [({'b': X},)]}", "A"),
    "another module's": ("values.A = [X]", "values.A"),
    "taken from another module": ("values.A = [X]\nfrom values import A", "A"),
    "a default": ("def f(a=X): return a", "f()"),
    "a keyword default": ("def f(*, a=X): return a", "f()"),
    "a closure": ("def f(a):\n  return lambda: a\nf = f(X)", "f()"),
    "a function's attribute": ("def f(): return f.a\nf.a = X", "f()"),
    "a function within": ("A = X\ndef f():\n  def g(): return A\n  return g()", "f()"),
    "a comprehension": ("A = X", "[A for _ in 'a']"),
    "a lambda": ("f = lambda: X", "f()"),
    "a partial": ("def f(a): return a\nf = functools.partial(f, X)", "f()"),
    "a partial's keyword": ("def f(a): return a\nf = functools.partial(f, a=X)", "f()"),
    "a decorated function": (
        "def d(f):\n  @functools.wraps(f)\n  def w(): return f()\n  return w\n"
        "@d\ndef f(): return X",
        "f()",
    ),
    "a decorator": (
        "def d(f):\n  @functools.wraps(f)\n  def w(): return X\n  return w\n@d\ndef f(): return 0",
        "f()",
    ),
    "a decorator of Python's functions": (
        "import json\ndef d(f):\n  def w(text): return X\n  return w\nloads = d(3)",
        "loads('3')",
    ),
    "a generator function": ("def f():\n  try:\n    yield X\n  finally: pass", "next(f())"),
    "a date": ("A = datetime.date(2013, 1, X)", "A"),
    "a length of time": ("A = datetime.timedelta(X)", "A"),
    "a pattern": ("A = re.compile('X')", "A"),
    "a pattern's flags": ("A = re.compile('a', re.I * (X - 1))", "A"),
    "a number's type": ("A = 1 if X == 1 else 1.0", "A"),
    "text or bytes": ("A = '1' if X == 1 else b'1'", "A"),
    "who is who": ("A = [[], []]\nA = [A[0], A[X - 1]]", "A[0] is A[1]"),
    "a cycle": ("A = [X]\nA.append(A)", "A"),
    "functions that call each other": ("def f(): return g\ndef g(): return f, X", "f()"),
    "an exception's handler": ("def f():\n  try: return 1 / 0\n  except OSError: return X", "f()"),
    "a builtin": ("A = max if X == 1 else min", "A(1, 2)"),
    "a function of math": ("import math\nA = math.floor if X == 1 else math.ceil", "A(0.5)"),
}

# rules whose answer depends on something that cannot be followed reliably
UNSURE = {
    "an unpickled value": ("import pickle\nA = pickle.dumps(1)", "pickle.loads(A)"),
    "a module that is run": ("import runpy", "runpy.run_path('values.py')"),
    "a name that is resolved": ("import pkgutil", "pkgutil.resolve_name('values:A')"),
    "a function's name": ("def f(): pass", "f.__name__"),
    "a function's globals": ("A = [1]\ndef f(): pass", "f.__globals__['A']"),
    "globals by a text": ("A = [1]\ndef f(): pass", "'{0.__globals__[A]}'.format(f)"),
    "a frame": ("import sys\nA = [1]", "sys._getframe().f_globals['A']"),
    "a generator's frame": ("def f():\n  yield 1", "f().gi_frame"),
    "an exception's frame": ("def f(error): return error.tb_frame", "f(None)"),
    "a library's class": ("A = decimal.Decimal(1)", "A"),
    "a library's function": ("import json", "json.loads('1')"),
    "a method of a library's object": ("import json\nA = json.JSONDecoder().decode", "A('1')"),
    "a class": ("class K:\n  A = 1", "K.A"),
    "an object": ("class K:\n  def __init__(self): self.a = 1\nA = K()", "A.a"),
    "a bound method": ("class K:\n  def a(self): return 1\na = K().a", "a()"),
    "an enum": ("class K(enum.Enum):\n  A = 1", "K.A.value"),
    "a subclass of a list": ("class K(list): pass\nA = K([1])", "A"),
    "a subclass of an integer": ("class K(int): pass\nA = K(1)", "A"),
    "a cached function": ("@functools.lru_cache\ndef f(): return 1", "f()"),
    "the time": ("", "datetime.datetime.now()"),
    "a path": ("A = pathlib.Path('1')", "A"),
    "an import": ("def f():\n  import values\n  return values.A", "f()"),
    "a global that is set": ("A = 1\ndef f():\n  global A\n  A = 2", "f()"),
    "getattr": ("A = 'A'", "getattr(values, A)"),
    "globals": ("A = 1", "globals()['A']"),
    "vars": ("", "vars(values)"),
    "evaluation": ("A = 1", "eval('A')"),
    "a file": ("", "open('values.py').read()"),
    "an import by name": ("", "__import__('values')"),
    "a module that is passed around": ("A = [values]", "A"),
    "another package's function": ("", "values.function()"),
    "what is not there": ("", "values.nothing"),
    "another builtin of the name": ("import builtins\ndef len(a): return open", "len('a')"),
}


def loaded(folder, way, number):
    """Return the rule with this number, from a newly imported module."""
    before, use = (text.replace("X", str(number)) for text in {**WAYS, **UNSURE}[way])
    pathlib.Path(folder, "rules.py").write_text(RULES.format(before, use))
    pathlib.Path(folder, "values.py").write_text("def function(): return 1\n")
    for name in ("rules", "values"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module("rules").known


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("rules", "values"):
        sys.modules.pop(name, None)


def rule(check):
    return Gate("g", check).fingerprint


@pytest.mark.parametrize("way", WAYS)
def test_another_rule_is_another_one_and_the_same_rule_the_same(folder, way):
    first, changed, again = (rule(loaded(folder, way, number)) for number in (1, 2, 1))
    assert first is not None
    assert changed is not None
    assert first == again != changed


def test_it_is_the_same_in_another_process(folder):
    """Another process has other memory addresses and another order of sets."""
    here = {way: rule(loaded(folder, way, 1)) for way in WAYS}
    program = (
        "import sys; from tests.gates import test_fingerprint as it\n"
        "sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1])\n"
        "for way in it.WAYS: print(it.rule(it.loaded(sys.argv[1], way, 1)))"
    )
    for seed in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-c", program, str(folder)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert dict(zip(WAYS, said.stdout.split(), strict=True)) == here


def test_every_built_in_check_has_one():
    gates = [
        checks.schema("t/", {"id": "int64"}),
        checks.row_count("t/"),
        checks.row_count_change("t/"),
        checks.not_null("t/", "id"),
        checks.unique("t/", "id"),
        checks.in_range("t/", "id", 1),
        checks.file_format("t/"),
        checks.file_size("t/"),
        checks.only_within("t/"),
        checks.nothing_deleted_outside("t/"),
        checks.refers_to("t/", "id", "u/"),
    ]
    assert len({gate.fingerprint for gate in gates} - {None}) == len(gates)
    assert checks.row_count("t/", 1).fingerprint == checks.row_count("t/", 1).fingerprint
    assert checks.row_count("t/", 1).fingerprint != checks.row_count("t/", 2).fingerprint


@pytest.mark.parametrize("way", UNSURE)
def test_what_cannot_be_told_surely_has_none(folder, way):
    assert rule(loaded(folder, way, 1)) is None


def test_a_builtin_that_was_replaced_is_not_taken_for_itself(monkeypatch):
    def divides(candidate):
        return divmod(4, 2) == (2, 0)

    first = rule(divides)
    with monkeypatch.context() as patched:
        patched.setattr("builtins.divmod", lambda *_: (2, 0))
        assert rule(divides) != first
    assert rule(divides) == first is not None


def test_a_built_in_check_is_identified_by_version(monkeypatch):
    first = checks.row_count("t/").fingerprint
    monkeypatch.setattr(graveler, "__version__", "99.0")
    assert checks.row_count("t/").fingerprint != first


def holding(value):
    return lambda candidate: value


@pytest.mark.parametrize(
    "check",
    [
        samples.AtLeast(2),
        samples.AtLeast(2).__call__,
        holding(threading.Lock()),
        holding(number for number in range(3)),
        holding(list(range(200_000))),
        holding(ModuleType("made")),
        holding(holding.__code__),
        holding([open]),
    ],
)
def test_what_cannot_be_followed_surely_is_asked_each_time(repo, check):
    gate = Gate("g", check)
    assert gate.fingerprint is None
    run = repo.runs.open("hour")
    run.put("a/1", b"1")
    run.commit_staged()
    run.judge([gate])
    run.judge([gate])
    assert next(repo.gates.judgements()).reused == ()


def test_what_is_nested_too_deeply_has_none():
    value: list[Any] = []
    for _ in range(2_000):
        value = [value]
    assert rule(holding(value)) is None


def test_an_open_file_has_none(tmp_path):
    with (tmp_path / "file").open("w") as file:
        assert rule(holding(file)) is None


def in_allowed(candidate):
    return all(candidate.get(change.path).decode() in ALLOWED for change in candidate.changes())


class Limit:
    """A check that is an object without a description of its own."""

    def __init__(self, most):
        self.most = most

    def __call__(self, candidate):
        return len(list(candidate.changes())) <= self.most


def judged(repo, gate):
    run = repo.runs.open("hour")
    run.put("a/1", b"DL")
    run.put("a/2", b"DL")
    run.commit_staged()
    assert run.judge([gate])[0].passed
    return run


def test_a_constant_that_changes_in_a_process_is_seen(repo, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ALLOWED", {"UA", "DL"})
    gate = Gate("g", in_allowed)
    run = judged(repo, gate)
    ALLOWED.remove("DL")
    with pytest.raises(GateFailedError):
        run.publish([gate])
    assert not repo.ref("main").exists("a/1")


@pytest.mark.parametrize("make", [Limit, lambda most: lambda c: len(list(c.changes())) <= most])
def test_an_object_replaced_by_another_one_is_noticed(repo, make):
    run = judged(repo, Gate("g", make(5)))
    with pytest.raises(GateFailedError):
        run.publish([Gate("g", make(1))])


def test_what_a_check_said_that_changed_its_own_rule_is_not_kept(repo):
    left = [True, False]
    gate = Gate("g", lambda _: left.pop(0))
    run = judged(repo, gate)
    left.insert(0, True)  # the state before it judged
    assert run.judge([gate])[0].passed
    assert not run.judge([gate])[0].passed


def test_a_process_of_its_own_that_has_another_rule_tells(disk, monkeypatch):
    """A fresh interpreter imports the module from disk."""
    monkeypatch.setattr(samples, "MOST_FILES", 0)
    isolated = Gate("g", samples.few_files, isolated=True)
    run = judged(disk, isolated)
    with pytest.raises(GateFailedError):
        run.publish([Gate("g", samples.few_files)])


def test_what_a_process_of_its_own_said_is_kept(disk):
    gate = Gate("g", samples.few_files, isolated=True)
    run = judged(disk, gate)
    run.judge([gate])
    assert next(disk.gates.judgements()).reused == ("g",)


def test_a_required_gate_that_cannot_be_told_is_asked_once(repo):
    repo.gates.require("main", samples.opens_a_file)
    with repo.run("hour", gates=[samples.opens_a_file]) as run:
        run.put("a/1", b"1")
    assert [verdict.gate for verdict in run.result.verdicts] == ["opens_a_file"]
