"""The page of a folder: what is in it, what it was, and what a missing path is near to."""

import subprocess
from datetime import timedelta

import pytest

from graveler.model import Entry
from graveler.pages.trees import places
from graveler.reads.schemas import ROWS
from graveler.testing.world import link_unseen

HOSTILE = [
    "<script>alert(1)</script>",
    "a\"'><img src=x onerror=alert(1)>",
    "{{ 7*7 }}{% raw %}",
    "line\nend\ttab\x1b[31m",
    "\u202egpj.exe\u200b",
    "../../etc",
    "a&amp;b=c#d?e%2Fx+y",
    "`$(reboot)`; 'x",
    "é日本🙂",
    " x ",
    "-rf",
    "x" * 500,
]


@pytest.fixture
def days(main, world):
    """Three commits of two people, an hour apart."""
    for number, name in enumerate(["ann", "bob", "eve"]):
        main.put(f"in/{number}/a.csv", b"a\n" * (number + 1))
        main.put("readme", str(number).encode())
        main.commit(f"day {number}", committer=name)
        world.clock.advance(timedelta(hours=1))
    return main


def test_a_folder_shows_sums_and_last_changes(look, days):
    seen = look("files")
    assert [row[:5] for row in seen.rows()] == [
        ["in/", "3", "12 B", "", "day 2 by eve"],
        ["readme", "", "1 B", "", "day 2 by eve"],
    ]
    below = look(next(link for link in seen.links("files") if link.endswith("path=in%2F")))
    assert [row[0] + row[4] for row in below.rows()] == [
        "0/day 0 by ann",
        "1/day 1 by bob",
        "2/day 2 by eve",
    ]
    assert below.page.title == "in"


def test_rows_are_shown_where_all_entries_state_them(look, main):
    files = [Entry(f"t/{n}", f"data/{n}", 10, "sha256:0", metadata={ROWS: "7"}) for n in range(3)]
    link_unseen(main, [*files, Entry("u/0", "data/u", 10, "sha256:0")])
    main.commit("tables")
    assert [row[:4] for row in look("files").rows()] == [
        ["t/", "3", "30 B", "21"],
        ["u/", "1", "10 B", ""],
    ]
    assert [row[3] for row in look("files", path="t").rows()] == ["7"] * 3


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"at": "main"}, 3),
        ({"at": "main~1"}, 2),
        ({"at": "main", "move": "0"}, 3),
        ({"at": "main", "move": "2"}, 1),
        ({"at": "main@{2}", "move": "1"}, 2),
        ({"at": "main@{1}"}, 2),
        ({"at": "v1"}, 1),
    ],
)
def test_a_folder_is_shown_as_it_was(look, repo, days, given, files):
    repo.tags.create("v1", "main~2")
    assert look("files", path="in", **given).values["whole"].files == files


def test_a_time_shows_what_the_branch_was_then(look, world, days):
    then = world.clock.now() - timedelta(hours=2, minutes=30)
    for when in (then.isoformat(), f"{then:%Y-%m-%dT%H:%M}"):
        seen = look("files", at="main", when=when)
        assert seen.values["whole"].files == 2
        assert seen.values["moves"].position == 2
    early = look("files", at="main", when="1999-01-01T00:00")
    assert (early.status, "its log begins at" in early.text) == (404, True)
    assert look("files", at="main~1", when="1999-01-01T00:00").status == 400


def test_the_moves_of_a_branch_are_links_and_a_slider(look, days):
    seen = look("files", path="in/")
    slider = next(given for tag, given in seen.parsed.tags if given.get("type") == "range")
    assert (slider["name"], slider["min"], slider["max"], slider["value"]) == (
        "move",
        "0",
        "3",
        "0",
    )
    earlier = seen.links("files", past=True)
    assert [look(link).values.get("whole", (0,))[0] for link in earlier] == [3, 2, 1, 0]
    assert look("files", at="main", move="2").values["moves"].position == 2


def test_2000_files_are_read_page_by_page(look, main):
    names = sorted(f"f{number:04}" for number in range(2_000))
    link_unseen(main, [Entry(f"many/{n}", f"data/{n}", 1, "sha256:0") for n in names])
    main.commit("many")
    seen, found, pages = look("files", path="many"), [], 0
    while True:
        found += [row[0] for row in seen.rows()]
        pages += 1
        assert seen.values["whole"].files == 2_000
        following = [given for tag, given in seen.parsed.tags if given.get("rel") == "next"]
        if not following:
            break
        assert "graveler --repo flights ls main:many/" in seen.text
        seen = look(following[0]["href"])
    assert (found, pages) == (names, 20)


def test_an_empty_tree_says_how_it_is_filled(look, repo, main):
    assert "Nothing is committed here" in look("files").text
    main.put("a/b", b"1")
    seen = look("files")
    assert seen.rows() == [["a/b", "added", "1 B", "root", "0 s ago"]]
    assert "Staged" not in look("files", at="main@").text
    main.commit("one")
    assert "Staged" not in look("files").text
    main.put_many({"a/c": b"1", "b": b"1"})
    assert [row[0] for row in look("files", path="a/").rows(1)] == ["a/c"]


def test_a_missing_path_names_what_is_near(look, days, main):
    main.delete("in/0/a.csv")
    main.commit("gone", committer="ann")
    seen = look("file", path="reedme")
    assert (seen.status, seen.values["near"]) == (404, [("readme", False)])
    deep = look("files", path="in/9/x/y")
    assert (deep.status, deep.values["there"].path) == (404, "in/")
    gone = look("file", path="in/0/a.csv")
    assert (gone.status, "It was removed by gone by ann" in gone.text) == (404, True)
    assert {look(link).status for link in gone.links("file", "files", "commit")} == {200}
    assert look("files", at="nothing").status == 404
    assert look("files", path="a//b").status == 400


def test_a_path_that_was_a_folder_and_is_a_file(look, main):
    main.put("x/y", b"1")
    main.commit("a folder")
    main.delete("x/y")
    main.put("x", b"2")
    main.commit("a file")
    for page, at, status in [
        ("file", "main", 200),
        ("files", "main", 404),
        ("files", "main~1", 200),
    ]:
        assert look(page, path="x", at=at).status == status
    wrong = look("files", path="x")
    assert "a file there" in wrong.text
    other = look("file", path="x", at="main~1")
    assert "a folder there" in other.text
    for seen in (wrong, other):
        assert {look(link).status for link in seen.links("file", "files")} == {200}
    assert look("compare", left="main~1", right="main").values["total"].files == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_and_their_links_work(look, main, name):
    if ".." not in name:
        for path in (name, f"{name}x/{name}"):
            main.put(path, name.encode())
        main.commit(name, committer=name)
        seen = look("files", path=f"{name}x")
        links = seen.links("file", "files", "commit")
        assert ({look(link).status for link in links}, len(links) > 4) == ({200}, True)
        assert look("file", path=name).values["entry"].path == name
        assert look("compare", left="main~1", right="main", path=name).values["total"].files == 2
    for page in ("files", "file", "compare"):
        for parameter in ("path", "at", "left", "right", "when", "move", "after", "key"):
            seen = look(page, **{parameter: name})
            assert seen.status in {200, 400, 404}
            assert not any(
                each in seen.html for each in ("\x1b", "\u202e", "<script", "onerror=alert(1)>")
            )


def test_sizes_that_are_not_summed_yet_are_named(look, days, monkeypatch):
    monkeypatch.setattr("graveler.pages.trees.files.RANGES", 0)
    monkeypatch.setattr("graveler.reads.totals._kept", {})
    seen = look("files")
    assert (seen.values["whole"].size, seen.values["whole"].files) == (None, 4)
    assert "not summed yet" in seen.text
    assert "graveler --repo flights du -d 1 main:" in seen.text


def test_changes_that_are_too_far_back_are_named(look, days, monkeypatch):
    monkeypatch.setattr("graveler.pages.trees.places.COMMITS", 1)
    assert [row[4] for row in look("files", path="in").rows()] == ["further back"] * 2 + [
        "day 2 by eve"
    ]


def test_the_longest_path_has_a_page(look, main):
    path = "a/" + "b" * 1022
    main.put(path, b"1")
    main.commit("long")
    assert look("file", path=path).status == 200
    near = look("file", path=f"{path[:-1]}c")
    assert (near.status, near.values["near"]) == (404, [(path, False)])
    assert look("files", path=path).status == 400


@pytest.mark.parametrize("name", ["it's", "a\\b'\n", "$x", "\u202eb", "-"])
def test_a_word_of_a_shell_is_the_name_again(name):
    said = subprocess.run(
        ["bash", "-c", f"printf %s {places.shell_word(name)}"], capture_output=True, check=True
    )
    assert said.stdout.decode() == name
