"""Patterns of paths, and several files, in the verbs that take paths."""

import pytest

PATHS = ["output/05/part-0.csv", "output/05/part-1.csv", "output/06/part-0.csv", "odd/[a]/x"]


@pytest.fixture
def main(repo):
    main = repo.branch("main")
    main.put_many((path, path.encode()) for path in PATHS)
    main.commit("files")
    return main


def paths(branch, prefix=""):
    return [entry.path for entry in branch.entries(prefix)]


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("output/*/part-0.csv", ["output/05/part-0.csv", "output/06/part-0.csv"]),
        ("output/*", ["output/05/", "output/06/"]),
        ("**/part-1*", ["output/05/part-1.csv"]),
        ("output/0[!5]/", ["output/06/part-0.csv"]),
        ("odd/[a]/x", ["odd/[a]/x"]),
        ("odd/[a]", ["odd/[a]/x"]),
        ("o*", ["odd/", "output/"]),
    ],
)
def test_ls_lists_what_matches(cli, main, pattern, shown):
    assert [line["path"] for line in cli("ls", f"main:{pattern}", "--json").lines] == shown


def test_files_of_a_pattern_keep_their_paths_below_it(cli, main, tmp_path):
    said = cli("get", "main:output/*/part-0.csv", tmp_path / "here", "--json")
    assert said.json["files"] == 2
    assert (tmp_path / "here" / "06" / "part-0.csv").read_bytes() == b"output/06/part-0.csv"
    assert not (tmp_path / "here" / "05" / "part-1.csv").exists()
    assert cli("cp", "main:output/*/part-0.csv", "main:copy", "--json").json["count"] == 2
    assert paths(main, "copy/") == ["copy/05/part-0.csv", "copy/06/part-0.csv"]
    assert cli("mv", "main:copy/*/*", "main:moved/to/", "--json").json["count"] == 2
    assert paths(main, "copy/") == []
    assert paths(main, "moved/") == ["moved/to/05/part-0.csv", "moved/to/06/part-0.csv"]
    assert cli("mv", "main:moved/to/0[!5]/*", ":moved/up").code == 0
    assert paths(main, "moved/") == ["moved/to/05/part-0.csv", "moved/up/06/part-0.csv"]
    assert len(cli("rm", "main:moved/**", "main:odd/*/*", "--json").lines) == 3
    assert paths(main) == PATHS[:3]
    assert cli("cat", "main:output/05/*").raw == b"output/05/part-0.csvoutput/05/part-1.csv"


def test_a_diff_takes_a_pattern(cli, repo, main):
    repo.create_branch("dev")
    dev = repo.branch("dev")
    dev.put_many((path, b"new") for path in PATHS)
    said = cli("diff", "main", "dev", "output/*/part-0.csv", "--name-only")
    assert said.out.splitlines() == ["output/05/part-0.csv", "output/06/part-0.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["ls", "main:no/*.csv"], 1, "nothing at or below 'no/*.csv' in 'main'"),
        (["rm", "main:output/*"], 1, "a pattern that ends with '/' has all files below"),
        (["ls", "main:no/**"], 1, "no file of 'main' matches 'no/**'"),
        (["get", "main:output/*", "here"], 1, "no file matches 'output/*' in 'main'"),
        (["get", "main:output/*/*"], 2, "name the FOLDER to write to"),
        (["get", "main:output/*/*", "here", "--delete"], 2, "--delete: only with -r"),
        (["cp", "main:no/*", "main:x/"], 1, "nothing at 'no/*' in 'main'"),
        (["cat", "main:output"], 1, "nothing at 'output' in 'main'"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told(cli, main, arguments, code, told):
    said = cli(*arguments)
    assert (said.code, told in said.err) == (code, True), said.err
    assert paths(main) == sorted(PATHS)


def test_several_files_are_put_into_a_folder(cli, repo, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(name)
    said = cli("put", tmp_path / "a.csv", tmp_path / "b.csv", "main:input/", "--json")
    assert (said.json["files"], said.json["path"]) == (2, "input/")
    assert paths(repo.branch("main")) == ["input/a.csv", "input/b.csv"]
    for given, told in [
        (["a.csv", "b.csv", "main:input"], "several files into a folder, which ends with '/'"),
        (["-r", ".", ".", "main:input/"], "put one folder with -r"),
        (["a.csv", "../a.csv", "main:x/"], "two sources for 'main:x/' have one name"),
        (["a.csv", "-", "main:x/"], "give the standard input a file name"),
    ]:
        names = [tmp_path / name if name.endswith(".csv") else name for name in given]
        (tmp_path.parent / "a.csv").write_text("other")
        said = cli("put", *names)
        assert (said.code, told in said.err) == (2, True), said.err
