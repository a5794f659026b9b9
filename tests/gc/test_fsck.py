"""fsck finds each damage, and names it, the refs that need it, and its paths."""

from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from graveler.committed.metarange import read
from graveler.errors import InvalidInputError
from graveler.fsck.check import fsck
from graveler.fsck.objects import Pace
from graveler.model import Entry
from graveler.refs.commits import encode_commit
from graveler.testing.clock import FakeClock
from graveler.testing.world import link_unseen
from graveler.values import (
    decode_value,
    encode_entry,
    encode_value,
    record_id,
    stage_entry,
    write_start,
)

EVERYWHERE = ("dev", "main", "run-hour-3-", "run-hour-4-", "tag v1")
HEADS = ("dev", "main", "run-hour-3-", "run-hour-4-")


def short(refs):
    """Return the refs, without the hash at the end of a run's ref."""
    return tuple(ref[:-8] if ref.startswith("run-") else ref for ref in refs)


@pytest.mark.parametrize("depth", ["none", "exist", "checksum"])
def test_a_sound_repository_has_no_problems_and_one_read_each(damage, depth):
    report = damage.fsck(objects=depth)
    assert report.problems == ()
    assert report.sound
    commits = {
        commit.id
        for ref in damage.repo.branches(hidden=True)
        for commit in damage.repo.log(ref.name)
    }
    trees = {tree for commit in commits for tree in damage.repo.commit(commit).trees}
    ranges = {info.id for tree in trees for info in read(damage.repo.stores.ranges, tree)}
    assert len(ranges) > 6
    assert (report.refs, report.commits) == (5, len(commits))
    assert (report.metaranges, report.ranges) == (len(trees) - 1, len(ranges))
    assert report.objects == (0 if depth == "none" else 15)
    assert report.hashed == (12 * 3 + 3 + 3 + 4 if depth == "checksum" else 0)


def changed_object(damage):
    uri = damage.change("main", "00:00/part-1", b"0 7")
    assert damage.found() == []
    return uri


def copied_object(damage):
    """One object at two paths is one problem."""
    dev = damage.repo.branch("dev")
    dev.link_many([replace(dev.stat("dev/a"), path="dev/b")])
    dev.commit("copy")
    return damage.lose("dev", "dev/a")


def damaged_range(damage):
    """Its objects are not guessed at."""
    info = damage.ranges("dev")[-1]
    damage.objects.delete(damage.address("dev", "dev/a"))
    return damage.flip(info.id.hex(), 40)


def cached_range(damage):
    """A range in the cache does not hide that its source is gone."""
    info = damage.ranges("main")[-1]
    list(damage.repo.ref("main").list())
    return damage.remove(info.id.hex())


def missing_commit(damage):
    commit = damage.repo.commit("main").id
    damage.repo.stores.kv.delete(damage.refs, f"commit/{commit}".encode())
    return commit


def tag_to_nowhere(damage):
    damage.overwrite("tag", "lost", b"f" * 64)
    return "f" * 64


def staged_object(damage):
    staged = damage.repo.branch("dev").put("dev/staged", b"123")
    damage.objects.delete(staged.address)
    assert damage.found(objects="none") == []
    return damage.repo.stores.uri(staged.address)


def staged_nonsense(damage):
    damage.stage("main", b"bad", b"\x07")
    return "main:bad"


def staged_with_another_id(damage):
    damage.repo.branch("dev").put("dev/staged", b"123")
    raw = damage.staged("dev", b"dev/staged")
    start = write_start(raw) + 1
    damage.stage("dev", b"dev/staged", raw[:start] + bytes(32) + raw[start + 32 :])
    return "dev:dev/staged"


HARMS = {
    # what is done and returns the id of the problem: kind, refs, message, paths
    "missing object": (
        lambda damage: damage.lose("main", "01:00/part-2"),
        *("object", EVERYWHERE, "is missing", ("01:00/part-2",)),
    ),
    "object of one branch": (
        lambda damage: damage.lose("dev", "dev/a"),
        *("object", ("dev",), "is missing", ("dev/a",)),
    ),
    "object of the heads": (
        lambda damage: damage.lose("main", "02:00/part-0"),
        *("object", HEADS, "is missing", ("02:00/part-0",)),
    ),
    "cut object": (
        lambda damage: damage.change("main", "00:00/part-1", b"0"),
        *("object", EVERYWHERE, "has 1 bytes, its entry says 3", ("00:00/part-1",)),
    ),
    "changed object": (changed_object, "object", EVERYWHERE, "has sha256:", ("00:00/part-1",)),
    "copied object": (copied_object, "object", ("dev",), "is missing", ("dev/a", "dev/b")),
    "damaged range": (damaged_range, "range", ("dev",), "", ("dev/a",)),
    "cached range": (cached_range, "range", HEADS, "nothing at", None),
    "missing tree": (
        lambda damage: damage.remove(damage.metarange("dev")),
        *("metarange", ("dev",), "nothing at", ()),
    ),
    "damaged tree": (
        lambda damage: damage.flip(damage.metarange("v1"), 30),
        *("metarange", EVERYWHERE, "", ()),
    ),
    "missing commit": (missing_commit, "commit", HEADS, "is missing", ()),
    "unreadable commit": (
        lambda damage: damage.overwrite("commit", damage.repo.commit("dev").id, b"{"),
        *("commit", ("dev",), "is not JSON", ()),
    ),
    "tag to nowhere": (tag_to_nowhere, "commit", ("tag lost",), "is missing", ()),
    "unreadable branch": (
        lambda damage: damage.overwrite("branch", "dev", b"rubbish"),
        *("branch", (), "", ()),
    ),
    "staged object": (staged_object, "object", ("dev",), "is missing", ("dev/staged",)),
    "staged nonsense": (staged_nonsense, "staged", ("main",), "", ("bad",)),
    "staged, another id": (
        staged_with_another_id,
        *("staged", ("dev",), "another record id", ("dev/staged",)),
    ),
    "damaged claims": (
        lambda damage: damage.flip(damage.claims("hour-4"), 40),
        *("metarange", ("run-hour-4-",), "", ()),
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_harm_is_named_with_all_that_need_it(damage, harm):
    do, kind, refs, said, paths = HARMS[harm]
    identifier = do(damage)
    (problem,) = damage.fsck(objects="checksum").problems
    assert (problem.kind, problem.id, short(problem.refs)) == (kind, identifier, refs)
    assert said in problem.message
    assert paths in (None, problem.paths)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"message": "forged"}, "does not match its id"),
        ({"committer": 7}, "field 'committer' is 7"),
        ({"parents": ()}, "does not match its id"),
        ({"generation": 9}, "has generation 9, its parents [4]"),
        ({"generation": 1}, "field 'generation' is 1"),
    ],
)
def test_a_commit_that_is_not_what_its_id_says_is_named(damage, wrong, said):
    commit = damage.repo.commit("dev")
    damage.overwrite("commit", commit.id, encode_commit(replace(commit, **wrong)))
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id, problem.refs) == ("commit", commit.id, ("dev",))
    assert said in problem.message


@pytest.mark.parametrize(
    ("identity", "raw", "said"),
    [
        (b"i" * 32, b"[1]", "entry at b'dev/b' has 3 bytes of data"),
        (bytes(32), None, "its fields give"),
    ],
)
def test_an_entry_that_makes_no_sense_is_named(damage, identity, raw, said):
    dev = damage.repo.branch("dev")
    entry = encode_entry(dev.put("dev/b", b"b"))[1]
    value = encode_value(identity, raw or decode_value(entry)[1])
    damage.stage("dev", b"dev/b", b"\x01" + record_id(b"dev/b", value) + value)
    dev.commit("written by something else")
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.refs) == ("range", ("dev",))
    assert said in problem.message
    assert "dev/b" in problem.paths
    assert damage.found(objects="none") == []


def test_a_staged_deletion_needs_no_object(damage):
    damage.repo.branch("dev").delete("dev/a")
    assert damage.found() == []


def test_linked_files_elsewhere_are_looked_at(damage, tmp_path):
    (tmp_path / "there.csv").write_bytes(b"12345")
    damage.repo.links.allow(str(tmp_path))
    dev = damage.repo.branch("dev")
    there = dev.link("linked/there", address=f"file://{tmp_path}/there.csv")
    link_unseen(
        dev,
        [
            Entry(path="linked/gone", address=f"file://{tmp_path}/gone.csv", size=1),
            Entry(path="linked/odd", address="odd://x/y", size=1),
        ],
    )
    dev.commit("links")
    changed = replace(there, path="linked/changed", version="mtime:1")
    damage.stage("dev", b"linked/changed", stage_entry(b"linked/changed", changed))
    problems = {problem.paths[0]: problem.message for problem in damage.fsck().problems}
    assert sorted(problems) == ["linked/changed", "linked/gone", "linked/odd"]
    assert problems["linked/gone"] == "is missing"
    assert problems["linked/odd"].startswith("cannot be looked at: ")
    assert "is at mtime:" in problems["linked/changed"]


def test_commits_named_besides_the_refs_must_be_whole(damage):
    dev = damage.repo.commit("dev").id
    damage.repo.delete_branch("dev")
    damage.objects.delete(damage.repo.ref(dev).stat("dev/a").address)
    assert damage.found() == []
    (problem,) = damage.fsck(also={"run hour 9": dev}).problems
    assert problem.refs == ("run hour 9",)


def test_progress_tells_how_far_it_is(damage):
    told = []
    damage.fsck(progress=lambda *where: told.append(where))
    assert {what for what, _, _ in told} == {"commits", "trees", "branches"}
    assert all(done < known for _, done, known in told)


def test_many_problems_come_in_order_and_none_hides_another(damage):
    damage.lose("main", "02:00/part-0")
    damage.remove(damage.metarange("dev"))
    damage.overwrite("branch", "broken", b"")
    damage.overwrite("tag", "lost", b"e" * 64)
    assert [kind for kind, _ in damage.found()] == ["branch", "commit", "metarange", "object"]


def stopped(monkeypatch, damage, number):
    """Check checksums, and stop the process when it opens object `number`."""
    opened, original = count(1), type(damage.objects).open

    def stopping(store, key, *given):
        if next(opened) == number:
            raise KeyboardInterrupt
        return original(store, key, *given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(damage.objects), "open", stopping)
        damage.fsck(objects="checksum")


def test_a_look_at_checksums_that_was_stopped_is_resumed(damage, monkeypatch):
    whole = damage.fsck(objects="checksum")
    assert (whole.objects, whole.resumed) == (15, 0)
    stopped(monkeypatch, damage, 10)
    rest = damage.fsck(objects="checksum", resume=True)
    assert (rest.objects, rest.problems) == (15, ())
    assert 0 < rest.resumed < 10
    assert 0 < rest.hashed < whole.hashed
    stopped(monkeypatch, damage, 10)
    fresh = damage.fsck(objects="checksum")
    assert (fresh.resumed, fresh.hashed) == (0, whole.hashed)
    again = damage.fsck(objects="checksum", resume=True)  # nothing is left to resume
    assert (again.resumed, again.hashed) == (0, whole.hashed)


def test_a_resumed_check_reports_old_damage_and_finds_new(damage, monkeypatch):
    first, *_ = damage.repo.ref("main").entries()
    damage.objects.put(first.address, b"x x")
    stopped(monkeypatch, damage, 12)
    later = damage.repo.branch("dev").put("later", b"later")
    damage.objects.put(later.address, b"xxxxx")
    found = {problem.paths for problem in damage.fsck(objects="checksum", resume=True).problems}
    assert found == {(first.path,), ("later",)}


def test_a_rate_bounds_the_bytes_that_are_read_in_a_second(damage):
    clock = FakeClock()
    before, pace = clock.now(), Pace(clock, 1000.0)
    for _ in range(10):
        pace.take(500)
    assert timedelta(seconds=5) <= clock.now() - before
    stores = replace(damage.repo.stores, clock=clock)
    before = clock.now()
    assert fsck(stores, objects="checksum", rate=20.0).sound
    assert clock.now() - before > timedelta(seconds=40 / 20)


@pytest.mark.parametrize(
    "given",
    [{"objects": "checksums"}, {"objects": None}, {"rate": 0}, {"rate": -1.0}, {"resume": 1}],
    ids=str,
)
def test_an_argument_that_fsck_does_not_know_is_refused(damage, given):
    with pytest.raises(InvalidInputError, match=next(iter(given))):
        damage.repo.fsck(**{"objects": "checksum"} | given)
