from dataclasses import replace
from datetime import timedelta
from itertools import count
from time import monotonic

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.errors import InvalidInputError
from graveler.fsck.check import FsckReport
from graveler.fsck.objects import Pace
from graveler.model import Entry
from graveler.refs.commits import encode_commit
from graveler.testing.clock import FakeClock
from graveler.testing.world import link_unseen
from graveler.values import decode_value, encode_entry, encode_value, record_id, stage_entry

EVERYWHERE = ("dev", "main", "run-hour-3-", "run-hour-4-", "tag v1")


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


def test_an_empty_repository_is_sound(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("empty")
        assert repo.fsck() == FsckReport((), 1, 1, 0, 0, 0, 0)


def test_a_missing_object_is_named_with_its_path_and_users(damage):
    damage.objects.delete(damage.address("main", "01:00/part-2"))
    (problem,) = damage.fsck().problems
    uri = damage.repo.stores.uri(damage.address("main", "01:00/part-2"))
    assert (problem.kind, problem.id, problem.message) == ("object", uri, "is missing")
    assert problem.paths == ("01:00/part-2",)
    assert short(problem.refs) == EVERYWHERE


def test_damaged_claims_are_named_with_the_runs_that_need_them(damage):
    (run,) = (each for each in damage.repo.branches(hidden=True) if "hour-4" in each.name)
    _, claims = damage.repo.commit(run.name).trees
    (info,) = read(damage.repo.stores.ranges, claims)
    damage.flip(damage.key(info.id.hex()), 40)
    assert damage.found() == [("range", info.id.hex())]
    damage.objects.delete(damage.key(claims))
    assert ("metarange", claims) in damage.found()


def test_only_those_who_need_it_are_named(damage):
    damage.objects.delete(damage.address("main", "02:00/part-0"))
    damage.objects.delete(damage.address("dev", "dev/a"))
    problems = {problem.paths: short(problem.refs) for problem in damage.fsck().problems}
    assert problems == {
        ("02:00/part-0",): ("dev", "main", "run-hour-3-", "run-hour-4-"),
        ("dev/a",): ("dev",),
    }


def test_an_object_at_two_paths_is_one_problem(damage):
    dev = damage.repo.branch("dev")
    dev.link_many([replace(dev.stat("dev/a"), path="dev/b")])
    dev.commit("copy")
    damage.objects.delete(damage.address("dev", "dev/a"))
    (problem,) = damage.fsck().problems
    assert problem.paths == ("dev/a", "dev/b")


def test_a_truncated_object_has_the_wrong_size(damage):
    damage.objects.put(damage.address("main", "00:00/part-1"), b"0")
    (problem,) = damage.fsck().problems
    assert problem.message == "has 1 bytes, its entry says 3"
    assert problem.paths == ("00:00/part-1",)


def test_a_changed_object_of_equal_size_is_found_by_checksum(damage):
    damage.objects.put(damage.address("main", "00:00/part-1"), b"0 7")
    assert damage.found() == []
    (problem,) = damage.fsck(objects="checksum").problems
    assert problem.message.startswith("has sha256:")
    assert problem.paths == ("00:00/part-1",)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_flipped_bit_in_a_range_is_named_with_its_paths(damage, part):
    info = damage.ranges("main")[0]
    key = damage.key(info.id.hex())
    damage.flip(key, int(part * len(damage.objects.get(key))))
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id) == ("range", info.id.hex())
    assert problem.paths == tuple(sorted({info.min_key.decode(), info.max_key.decode()}))
    assert short(problem.refs) == EVERYWHERE


def test_the_objects_of_a_damaged_range_are_not_guessed_at(damage):
    info = damage.ranges("dev")[-1]
    damage.objects.delete(damage.address("dev", "dev/a"))
    damage.objects.delete(damage.key(info.id.hex()))
    assert damage.found() == [("range", info.id.hex())]


def test_an_entry_that_makes_no_sense_is_a_problem_of_its_range(damage):
    stores, dev = damage.repo.stores, damage.repo.branch("dev")
    record = stores.refs.branches.get("dev")
    value = encode_value(b"i" * 32, b"[1]")
    stores.staging.set(record.staging_token, b"dev/b", b"\x01" + record_id(b"dev/b", value) + value)
    dev.commit("written by something else")
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.refs) == ("range", ("dev",))
    assert "entry at b'dev/b' has 3 bytes of data" in problem.message
    assert "dev/b" in problem.paths
    assert damage.found(objects="none") == []


def test_a_cached_range_does_not_hide_that_its_source_is_gone(damage):
    info = damage.ranges("main")[-1]
    list(damage.repo.ref("main").list())
    damage.objects.delete(damage.key(info.id.hex()))
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id) == ("range", info.id.hex())
    assert "tag v1" not in problem.refs


def test_a_missing_metarange_is_named_not_what_it_alone_names(damage):
    tree = damage.metarange("dev")
    damage.objects.delete(damage.key(tree))
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id, problem.refs) == ("metarange", tree, ("dev",))


def test_a_flipped_bit_in_a_metarange_is_named(damage):
    tree = damage.metarange("v1")
    damage.flip(damage.key(tree), 30)
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id) == ("metarange", tree)
    assert short(problem.refs) == EVERYWHERE


def test_a_missing_commit_is_named_with_the_refs_behind_it(damage):
    commit = damage.repo.commit("main")
    damage.repo.stores.kv.delete(damage.refs, f"commit/{commit.id}".encode())
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id) == ("commit", commit.id)
    assert "is missing" in problem.message
    assert short(problem.refs) == ("dev", "main", "run-hour-3-", "run-hour-4-")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"message": "forged"}, "does not match its id"),
        ({"committer": 7}, "field 'committer' is 7"),
        ({"parents": ()}, "does not match its id"),
        ({"metarange": "0" * 64}, "does not match its id"),
        ({"generation": 9}, "has generation 9, its parents [4]"),
        ({"generation": 1}, "field 'generation' is 1"),
    ],
)
def test_a_commit_that_is_not_what_its_id_says_is_named(damage, wrong, said):
    commit = damage.repo.commit("dev")
    damage.overwrite(f"commit/{commit.id}", encode_commit(replace(commit, **wrong)))
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id, problem.refs) == ("commit", commit.id, ("dev",))
    assert said in problem.message


def test_a_commit_that_cannot_be_read_is_named(damage):
    commit = damage.repo.commit("dev")
    damage.overwrite(f"commit/{commit.id}", b"{")
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id, problem.refs) == ("commit", commit.id, ("dev",))
    assert "is not JSON" in problem.message


def test_a_tag_that_points_nowhere_is_named(damage):
    damage.overwrite("tag/lost", b"f" * 64)
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id, problem.refs) == ("commit", "f" * 64, ("tag lost",))


def test_an_unreadable_branch_record_is_named_others_checked(damage):
    damage.overwrite("branch/dev", b"rubbish")
    damage.objects.delete(damage.address("main", "00:00/part-0"))
    branch, lost = damage.fsck().problems
    assert (branch.kind, branch.id) == ("branch", "dev")
    assert short(lost.refs) == ("main", "run-hour-3-", "run-hour-4-", "tag v1")


def test_what_is_staged_is_looked_at(damage):
    staged = damage.repo.branch("dev").put("dev/staged", b"123")
    damage.objects.delete(staged.address)
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.refs, problem.paths) == ("object", ("dev",), ("dev/staged",))
    record = damage.repo.stores.refs.branches.get("main")
    damage.repo.stores.staging.set(record.staging_token, b"bad", b"\x07")
    staged_write, _ = sorted(damage.fsck().problems, key=lambda found: found.kind, reverse=True)
    assert (staged_write.kind, staged_write.id) == ("staged", "main:bad")
    assert (staged_write.refs, staged_write.paths) == (("main",), ("bad",))


def test_a_staged_write_with_a_wrong_record_id_is_named(damage):
    stores = damage.repo.stores
    damage.repo.branch("dev").put("dev/staged", b"123")
    token = stores.refs.branches.get("dev").staging_token
    raw = stores.staging.get([token], b"dev/staged")
    stores.staging.set(token, b"dev/staged", raw[:1] + bytes(32) + raw[33:])
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.id, problem.refs) == ("staged", "dev:dev/staged", ("dev",))
    assert "another record id" in problem.message


def test_an_entry_with_a_wrong_content_identity_is_named(damage):
    stores, dev = damage.repo.stores, damage.repo.branch("dev")
    entry = dev.put("dev/b", b"b")
    value = encode_value(bytes(32), decode_value(encode_entry(entry)[1])[1])
    staged = b"\x01" + record_id(b"dev/b", value) + value
    stores.staging.set(stores.refs.branches.get("dev").staging_token, b"dev/b", staged)
    dev.commit("by another program")
    (problem,) = damage.fsck().problems
    assert (problem.kind, problem.refs) == ("range", ("dev",))
    assert "its fields give" in problem.message


def test_a_staged_deletion_needs_no_object(damage):
    damage.repo.branch("dev").delete("dev/a")
    assert damage.found() == []


def test_linked_files_elsewhere_are_looked_at(damage, tmp_path):
    (tmp_path / "there.csv").write_bytes(b"12345")
    damage.repo.links.allow(str(tmp_path))
    dev = damage.repo.branch("dev")
    dev.link("linked/there", address=f"file://{tmp_path}/there.csv")
    link_unseen(
        dev,
        [
            Entry(path="linked/gone", address=f"file://{tmp_path}/gone.csv", size=1),
            Entry(path="linked/odd", address="odd://x/y", size=1),
        ],
    )
    dev.commit("links")
    problems = {problem.paths[0]: problem.message for problem in damage.fsck().problems}
    assert list(problems) == ["linked/gone", "linked/odd"]
    assert problems["linked/gone"] == "is missing"
    assert problems["linked/odd"].startswith("cannot be looked at: ")


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
    damage.objects.delete(damage.address("main", "02:00/part-0"))
    damage.objects.delete(damage.key(damage.metarange("dev")))
    damage.overwrite("branch/broken", b"")
    damage.overwrite("tag/lost", b"e" * 64)
    assert [kind for kind, _ in damage.found()] == ["branch", "commit", "metarange", "object"]


def stop_at(monkeypatch, damage, number):
    """Stop the process when it opens object `number`."""
    opened, original = count(1), type(damage.objects).open

    def stopping(store, key, *given):
        if next(opened) == number:
            raise KeyboardInterrupt
        return original(store, key, *given)

    monkeypatch.setattr(type(damage.objects), "open", stopping)


def test_a_look_at_checksums_that_was_stopped_is_resumed(damage, monkeypatch):
    whole = damage.fsck(objects="checksum")
    assert (whole.objects, whole.resumed) == (15, 0)
    with monkeypatch.context() as patch:
        stop_at(patch, damage, 10)
        with pytest.raises(KeyboardInterrupt):
            damage.fsck(objects="checksum")
    rest = damage.fsck(objects="checksum", resume=True)
    assert (rest.objects, rest.problems) == (15, ())
    assert 0 < rest.resumed < 10
    assert 0 < rest.hashed < whole.hashed
    again = damage.fsck(objects="checksum", resume=True)  # nothing is left to resume
    assert (again.resumed, again.hashed) == (0, whole.hashed)


def test_a_look_that_is_not_resumed_reads_everything(damage, monkeypatch):
    whole = damage.fsck(objects="checksum").hashed
    with monkeypatch.context() as patch:
        stop_at(patch, damage, 10)
        with pytest.raises(KeyboardInterrupt):
            damage.fsck(objects="checksum")
        fresh = damage.fsck(objects="checksum")
        assert (fresh.resumed, fresh.hashed) == (0, whole)


def test_a_resumed_check_reports_old_damage_and_finds_new(damage, monkeypatch):
    first, *_ = damage.repo.ref("main").entries()
    damage.objects.put(first.address, b"x x")
    with monkeypatch.context() as patch:
        stop_at(patch, damage, 12)
        with pytest.raises(KeyboardInterrupt):
            damage.fsck(objects="checksum")
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
    began = monotonic()
    assert damage.fsck(objects="checksum", rate=200.0).sound
    assert monotonic() - began > 40 / 200


@pytest.mark.parametrize(
    "given",
    [{"objects": "checksums"}, {"objects": None}, {"rate": 0}, {"rate": -1.0}, {"resume": 1}],
    ids=str,
)
def test_an_argument_that_fsck_does_not_know_is_refused(damage, given):
    with pytest.raises(InvalidInputError, match=next(iter(given))):
        damage.repo.fsck(**{"objects": "checksum"} | given)


def test_a_linked_file_that_was_changed_since_is_named(damage, tmp_path):
    file = tmp_path / "linked"
    file.write_bytes(b"1")
    damage.repo.links.allow(str(tmp_path))
    written = file.stat().st_mtime_ns // 1000
    entry = Entry("linked", file.as_uri(), 1, version=f"mtime:{written - 1}")
    stores, record = damage.repo.stores, damage.repo.stores.refs.branches.get("dev")
    stores.staging.set(record.staging_token, b"linked", stage_entry(b"linked", entry))
    (problem,) = damage.fsck().problems
    assert problem.paths == ("linked",)
    assert f"is at mtime:{written}" in problem.message
