"""``gates show``, ``list``, ``require`` and ``drop``."""

import pytest

import graveler
from graveler import checks
from graveler.errors import GateFailedError


@pytest.fixture
def judged(folder):
    """A run that passed its gate, and a run that was refused."""
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        with repo.run("hour 05", gates=[checks.file_size("t/", name="sizes")]) as run:
            run.put("t/a", b"12345")
        with pytest.raises(GateFailedError):
            with repo.run("hour 06", gates=[checks.file_size("t/", 100, name="sizes")]) as run:
                run.put("t/b", b"12345")
    return folder


def test_what_was_said_of_a_run_and_of_a_commit_is_shown(cli, judged):
    assert "no gate has judged 'main~1'" in cli("gates", "show", "main~1").err
    shown = cli("gates", "show", "hour 05")
    assert "to publish into main" in shown.out
    assert "gate      sizes: passed in 0.0" in shown.out
    assert "bytes 5, files 1" in shown.out
    assert cli("gates", "show", "main").out == shown.out
    said = cli("gates", "show", "hour 06", "--json").json
    assert said["refused"] is True
    assert said["run"] == "hour 06"
    (verdict,) = said["verdicts"]
    assert verdict["reason"] == "'t/b' has 5 bytes, less than 100"
    assert verdict["commit"] == said["commit"]
    assert "refused in" in cli("gates", "show", said["commit"]).out


def test_judgements_are_listed_the_latest_first(cli, judged):
    latest, first = cli("gates", "list", "--json").lines
    assert (latest["run"], first["run"]) == ("hour 06", "hour 05")
    assert [line["run"] for line in cli("gates", "list", "-n", "1", "--json").lines] == ["hour 06"]
    refused = cli("gates", "list", "--refused").out
    assert "refused" in refused
    assert "hour 06: sizes" in refused
    assert "hour 05" not in refused


def test_gates_are_required_shown_and_dropped(cli, judged):
    required = cli(
        *("gates", "require", "main", "row_count"),
        *("--with", "prefix=t/", "--with", "at_least=2", "--with", "missing=allow"),
        *("--severity", "warn", "--timeout", "90s"),
    )
    assert required.out == (
        "main          row_count at_least=2 missing=allow prefix=t/ severity=warn timeout=90s\n"
    )
    assert cli("gates", "require", "main", "file_size", "--name", "sizes").code == 0
    (shown,) = cli("gates", "require", "--json").lines
    assert shown["pattern"] == "main"
    assert [gate["check"] for gate in shown["gates"]] == ["row_count", "file_size"]
    (judged / "empty").write_bytes(b"")
    assert cli("put", judged / "empty", ":t/c").code == 0
    refused = cli("commit", "-m", "empty")
    assert refused.code != 0
    assert "sizes: 't/c' has 0 bytes" in refused.err
    assert cli("gates", "drop", "main").out == "removed all required gates from main\n"
    assert cli("commit", "-m", "empty").code == 0


@pytest.mark.parametrize(("least", "code", "word"), [("1", 0, "passed"), ("100", 4, "less than")])
def test_a_dry_run_of_a_merge_is_judged_as_the_merge(cli, repo, least, code, word):
    repo.create_branch("dev").put("t/a", b"12345")
    repo.branch("dev").commit("more", committer="ann")
    required = ("main", "file_size", "--with", "prefix=t/", "--with", f"at_least={least}")
    assert cli("gates", "require", *required, "--name", "sizes").code == 0
    before = repo.commit("main")
    said = cli("merge", "dev", "main", "--dry-run", "-m", "words")
    assert (said.code, repo.commit("main")) == (code, before)
    assert f"sizes: {word if code == 0 else repr('t/a')}" in said.out
    assert "1 added, 0 changed, 0 removed, 0 in conflict; nothing was merged" in said.out
    (found,) = cli("merge", "dev", "main", "--dry-run", "-m", "words", "--json").lines
    (verdict,) = found["verdicts"]
    assert (verdict["gate"], verdict["passed"]) == ("sizes", code == 0)
    merged = cli("merge", "dev", "main", "-m", "words")
    assert merged.code == code
    latest = next(iter(cli("gates", "list", "--json").lines))
    assert latest["action"] == "merge"
    assert latest["reused"] == ["sizes"]


@pytest.mark.parametrize(
    ("check", "parameters", "shown"),
    [
        ("not_null", ["prefix=t/", 'columns=["a", "b"]'], 'columns=["a", "b"]'),
        ("not_null", ["prefix=t/", "columns=a"], "columns=a"),
        ("schema", ['columns={"a": "int64"}'], 'columns={"a": "int64"}'),
        ("row_count", ["at_least=null", "at_most=1e6"], "at_least=null"),
        ("row_count_change", ["less=0.5", "history=5"], "history=5"),
        ("in_range", ["column=a", "at_least=2013-01-01", "nan=true"], "at_least=2013-01-01"),
        ("freshness", ["max_age=3600"], "max_age=3600"),
    ],
)
def test_parameters_are_json_or_text(cli, folder, check, parameters, shown):
    given = [text for parameter in parameters for text in ("--with", parameter)]
    required = cli("gates", "require", "main", check, *given)
    assert required.code == 0
    assert shown in required.out


def test_gates_are_asked_before_a_merge_and_before_a_publish(cli, repo):
    dev = repo.create_branch("dev")
    dev.put("t/a", b"12345")
    dev.commit("small")
    head = repo.commit("main")
    small = ["--gates", "tests.cli.test_gates:SMALL"]
    said = cli("merge", "dev", "main", "--dry-run", *small)
    assert (said.code, "'t/a' has 5 bytes, less than 100" in said.out) == (4, True)
    assert cli("merge", "dev", "main", *small).code == 2
    run = repo.runs.open("hour")
    run.put("t/b", b"12345")
    run.commit_staged()
    said = cli("run", "preview", "--run", "hour", "--gate", "tests.cli.test_gates:SMALL")
    assert said.code == 4
    assert said.out.splitlines()[0] == "run hour would be refused; nothing moved"
    said = cli("run", "preview", "--run", "hour", "--json")
    assert (said.code, said.json["refused"], said.json["verdicts"]) == (0, False, [])
    assert repo.commit("main") == head


def test_a_gate_that_dies_shows_its_traceback(cli, repo):
    run = repo.runs.open("hour")
    run.put("t/b", b"12345")
    run.commit_staged()
    said = cli("run", "publish", "--run", "hour", "--gate", "tests.cli.test_gates:dies")
    assert said.code == 4
    line = dies.check.__code__.co_firstlineno + 2
    assert f"dies: ZeroDivisionError: division by zero (test_gates.py:{line})" in said.err
    assert "    Traceback (most recent call last):" in said.err.splitlines()
    assert [line for line in said.err.splitlines() if "  File " in line] == [
        f'      File "{dies.check.__code__.co_filename}", line {line}, in dies'
    ]


def test_a_trial_whose_gate_dies_has_no_verdict(cli, repo):
    for name in ("a", "b"):
        repo.branch("main").put(name, b"1")
        repo.branch("main").commit(name)
    tries = ("gates", "try", "--over", "main~2..main", "tests.cli.test_gates:SMALL")
    said = cli(*tries, "tests.cli.test_gates:dies")
    assert said.code == 4
    assert said.out.splitlines()[-1] == (
        "2 of 2 commits would have been refused; dies died on 2 of them, without a verdict"
    )
    assert cli(*tries, "tests.cli.test_gates:dies", "--json").code == 4
    assert cli(*tries).code == 0


SMALL = checks.file_size("t/", 100, name="sizes")


@graveler.gate
def dies(candidate):
    return 1 / 0
