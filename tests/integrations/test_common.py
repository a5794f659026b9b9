"""The shared code of the integrations, without an orchestrator."""

import importlib
import sys

import pytest

import graveler
from graveler import errors
from graveler_common import lazy_names
from graveler_common.failures import is_final
from graveler_common.history import (
    changes_between,
    changes_of,
    commits_after,
    has_changed,
)
from graveler_common.lakes import open_lake, shared_lake


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


def commit(repo, path, body=b"x", branch="main"):
    target = repo.branch(branch)
    target.put(path, body)
    return target.commit(path)


def test_commits_after_are_the_newest_first(repo):
    first, second, third = (commit(repo, path) for path in ("a", "b", "c"))
    after = list(commits_after(repo, third, first))
    assert [entry.id for entry in after] == [third.id, second.id]
    assert list(commits_after(repo, third, third)) == []
    *_, oldest = commits_after(repo, third, None)
    assert oldest.parents == ()
    assert changes_of(repo, oldest) is None


def test_commits_after_end_where_two_histories_part(repo):
    commit(repo, "a")
    repo.create_branch("dev", source="main")
    on_dev = [commit(repo, path, branch="dev") for path in ("b", "c")][-1]
    on_main = commit(repo, "d")
    assert [entry.id for entry in commits_after(repo, on_main, on_dev)] == [on_main.id]


@pytest.mark.parametrize(("prefix", "changed"), [("", True), ("in/", True), ("out/", False)])
def test_a_commit_changes_some_prefixes_only(repo, prefix, changed):
    assert has_changed(repo, commit(repo, "in/a"), prefix) is changed


def test_a_publish_of_equal_files_changes_no_prefix(repo):
    commit(repo, "in/a")
    with repo.run("hour") as run:
        run.put("in/a", b"x")
    assert not run.result.already
    assert not has_changed(repo, run.result.commit, "in/")


def test_changes_are_counted_by_folder(repo):
    before = commit(repo, "in/a", b"12")
    target = repo.branch("main")
    target.put("in/a", b"123")
    target.put("out/b", b"1")
    after = target.commit("two")
    changes = changes_between(repo, before.id, after.id)
    counts = [
        (folder.path, folder.added, folder.changed, folder.removed) for folder in changes.folders
    ]
    assert counts == [("in", 0, 1, 0), ("out", 1, 0, 0)]
    assert (changes.total.files, changes.total.gained, changes.total.lost) == (2, 4, 2)
    assert [file.path for file in changes.paths] == ["in/a", "out/b"]
    assert changes.complete


@pytest.mark.parametrize("opens", [open_lake, shared_lake])
def test_a_missing_lake_is_unavailable_and_not_created(tmp_path, opens):
    with pytest.raises(errors.BackendUnavailableError, match="is its volume mounted"):
        opens(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (errors.InvalidInputError("x"), True),
        (errors.RefNotFoundError("x"), True),
        (errors.RunStateError("x"), True),
        (errors.LakeLockedError("x"), False),
        (errors.ObjectNotFoundError("x"), False),
        (errors.BackendUnavailableError("x"), False),
    ],
)
def test_errors_that_may_pass_are_not_final(error, final):
    assert is_final(error) is final


def test_a_missing_orchestrator_names_its_extra(monkeypatch, tmp_path):
    """A package exports a name of its module, which imports an orchestrator."""
    (tmp_path / "lazy_dagster").mkdir()
    (tmp_path / "lazy_dagster" / "home.py").write_text("import dagster\nanswer = 42\n")
    (tmp_path / "lazy_dagster" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from lazy_dagster.home import answer as answer\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "dagster", None)
    importlib.import_module("lazy_dagster")
    load, _, _ = lazy_names("lazy_dagster", needs="dagster")
    with pytest.raises(
        errors.MissingDependencyError, match=r"answer needs dagster: pip .*graveler\[dagster\]"
    ):
        load("answer")
    other, _, _ = lazy_names("lazy_dagster", needs="airflow")
    with pytest.raises(ModuleNotFoundError):
        other("answer")
