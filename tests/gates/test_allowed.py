"""Required gates come only from modules that the process allows."""

import sys

import pytest

import graveler
from graveler.errors import GateFailedError, InvalidInputError
from graveler.gates.named import NamedGate
from tests.gates import samples

NAME = "tests.gates.samples:no_bad_files"


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """The folder of a lake. The process allows no module."""
    monkeypatch.delenv("GRAVELER_GATE_MODULES")
    with graveler.init(tmp_path / "lake") as lake:
        lake.create_repository("flights")
    return tmp_path / "lake"


def allow(folder, *modules):
    file = folder / "graveler.toml"
    with file.open("a") as settings:
        settings.write(f"\n[gates]\nmodules = {list(modules)!r}\n")


def in_the_store(repo, gate):
    """Require a gate in the key-value store directly, as a user with access to it could."""
    repo.stores.refs.requirements.change(lambda rules: {**rules, "main": [gate.encode()]})


@pytest.mark.parametrize("gate", [NAME, samples.no_bad_files, "json:dumps"])
def test_a_gate_of_another_module_is_refused_with_its_remedy(lake, gate):
    module = "json" if gate == "json:dumps" else "tests.gates.samples"
    with graveler.open(lake) as opened:
        repo = opened.repository("flights")
        for require in (
            lambda: repo.gates.require("main", gate),
            lambda: repo.gates.require_named("main", gate if isinstance(gate, str) else NAME),
        ):
            with pytest.raises(InvalidInputError, match=r"modules = ") as refused:
                require()
            assert f'modules = ["{module}"]' in str(refused.value)
        assert repo.gates.settings() == {}


@pytest.mark.parametrize("how", ["settings", "package", "environment"])
def test_what_is_allowed_judges(lake, monkeypatch, how):
    if how == "environment":
        monkeypatch.setenv("GRAVELER_GATE_MODULES", "flights.checks, tests.gates.samples")
    else:
        allow(lake, "tests" if how == "package" else "tests.gates.samples")
    with graveler.open(lake) as opened:
        repo = opened.repository("flights")
        repo.gates.require("main", NAME)
        main = repo.branch("main")
        main.put("bad/a", b"1")
        with pytest.raises(GateFailedError):
            main.commit("bad")
        main.delete("bad/a")
        main.put("good", b"1")
        main.commit("good")


def test_a_stored_gate_that_is_not_allowed_is_not_imported(lake):
    allow(lake, "tests.gates.samples")
    with graveler.open(lake) as opened:
        repo = opened.repository("flights")
        in_the_store(repo, NamedGate("this:d"))
        main = repo.branch("main")
        main.put("a", b"1")
        with pytest.raises(GateFailedError, match=r'modules = \["this"\]'):
            main.commit("no")
        assert "this" not in sys.modules
        assert repo.ref("main").commit.message == "Repository created"
        repo.gates.drop("main")
        main.commit("yes")


IMPORTED, FACTORY, GATE = "only imported there", "@graveler.gate_factory", "@graveler.gate"


@pytest.mark.parametrize(
    ("name", "parameters", "reason"),
    [
        ("os.system", {"command": "true"}, IMPORTED),
        ("os", {}, IMPORTED),
        ("graveler.open", {"target": "made", "create": True}, IMPORTED),
        ("sys.exit", {}, IMPORTED),
        ("delete_below", {"folder": "x"}, FACTORY),
        ("Folder", {"path": "x"}, FACTORY),
        ("delete_all", {}, GATE),
        ("Folder.remove", {}, GATE),
    ],
)
def test_what_is_no_gate_of_an_allowed_module_is_not_called(lake, name, parameters, reason):
    allow(lake, "tests.gates.samples")
    samples.CALLED.clear()
    with graveler.open(lake) as opened:
        repo = opened.repository("flights")
        gate = NamedGate(f"tests.gates.samples:{name}", parameters)
        with pytest.raises(InvalidInputError, match=reason):
            repo.gates.require_named("main", gate.check, gate.parameters)
        in_the_store(repo, gate)
        main = repo.branch("main")
        main.put("a", b"1")
        with pytest.raises(GateFailedError, match=reason):
            main.commit("no")
    assert samples.CALLED == []


def test_the_list_is_a_list(lake):
    (lake / "graveler.toml").write_text("format = 1\n[gates]\nmodules = 'flights'\n")
    with pytest.raises(InvalidInputError, match="a list of names"):
        graveler.open(lake)
