"""Uploads and downloads with a fault at every call, a kill, and another process beside them."""

import logging

import pytest

import graveler
from graveler.errors import GravelerError
from graveler.fsck.check import fsck
from graveler.model import Transfer
from graveler.repository.writes import uploads
from tests.harness.gc_lakes import check_sound, days, everything
from tests.harness.operations.collection import mark, sweep
from tests.harness.worlds import FAULTS, interleave, struck_worlds, tree

OLD = {"a": "0", "kept": "0"}
ITEMS = [("a", b"1"), ("b", b"1"), ("c", b"1"), ("d", b"1"), ("e", b"1")]
NEW = {**OLD, **{path: body.decode() for path, body in ITEMS}}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch, caplog):
    """Use chunks of two entries, so that a fault can occur between two of them."""
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(uploads, "_CHUNK", 2)


def start(repo):
    main = repo.branch("main")
    main.put("a", b"0")
    main.commit("base")
    main.put("kept", b"0")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("committed", [False, True])
def test_a_fault_leaves_a_beginning_and_the_rest_can_follow(fault, committed):
    def operate(repo):
        repo.branch("main").put_many(ITEMS, threads=1)
        if committed:
            repo.branch("main").commit("all")

    for world, what, failed in struck_worlds(fault, start, operate):
        repo = world.repo()
        main = repo.branch("main")
        seen = tree(main)
        ends = range(len(ITEMS) + 1)
        beginnings = [{**OLD, **{path: "1" for path, _ in ITEMS[:end]}} for end in ends]
        assert seen in beginnings, what
        staged = beginnings.index(seen)
        if isinstance(failed, GravelerError) and not committed:
            told = str(failed)
            known = [number for number in range(staged + 1) if said(number) in told]
            # a chunk whose reply is lost is staged but not counted
            assert known or "files are staged" not in told, (what, told)
        main.put_many(ITEMS[staged:], threads=1)
        assert tree(main) == NEW, what
        assert fsck(repo.stores, objects="checksum").sound, what


def said(number):
    if number < 2:
        return ("nothing is staged", "1 file is staged")[number]
    return f"{number} files are staged"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for path, body in ITEMS:
        (folder / path).write_bytes(body)
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_an_upload_after_a_fault_goes_on_to_the_end(fault, folder):
    """A mirror deletes `kept`, and only after all other files are present."""
    mirrored = {path: body.decode() for path, body in ITEMS}

    def operate(repo):
        repo.branch("main").upload(folder, threads=1, delete=True)

    for world, what, _ in struck_worlds(fault, start, operate):
        repo = world.repo()
        main = repo.branch("main")
        seen = tree(main)
        assert {path for path in seen if seen[path] == "1"} <= set(mirrored), what
        if "kept" not in seen:
            assert seen == mirrored, what
        done = main.upload(folder, threads=1, delete=True)
        assert done.files + done.skipped == len(ITEMS), what
        assert done.skipped == sum(seen.get(path) == "1" for path in mirrored), what
        assert tree(main) == mirrored, what


@pytest.mark.parametrize("fault", FAULTS)
def test_a_download_after_a_fault_goes_on_to_the_end(fault, tmp_path):
    numbers = iter(range(1_000))
    target = {}

    def prepare(repo):
        start(repo)
        repo.branch("main").put_many(ITEMS, threads=1)
        target["folder"] = tmp_path / str(next(numbers))

    def operate(repo):
        repo.branch("main").download("", target["folder"], threads=1)

    for world, what, _ in struck_worlds(fault, prepare, operate):
        folder = target["folder"]
        before = local(folder)
        assert before.items() <= NEW.items(), what
        done = world.repo().branch("main").download("", folder, threads=1)
        assert (done.files, done.skipped) == (len(NEW) - len(before), len(before)), what
        assert local(folder) == NEW, what


def local(folder):
    if not folder.exists():
        return {}
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_a_run_taken_over_at_any_call_acknowledges_nothing():
    """A call that ends before the takeover loses its writes with the attempt; any other is fenced."""
    handles: list[graveler.RunHandle] = []

    def prepare(repo):
        start(repo)
        handles[:] = [repo.runs.open("hour").handle]

    def operate(repo):
        run = repo.runs.attach(handles[0])
        return run.put_many(ITEMS, threads=1)

    def check(world, outcome, _):
        repo = world.repo(scripted=False)
        assert isinstance(outcome, (Transfer, graveler.FencedError)), outcome
        record = repo.runs.get("hour")
        if record.attempt == 1:
            return
        seen = tree(repo.branch(record.branch))
        if isinstance(outcome, graveler.FencedError):
            assert seen == {"a": "0"}, outcome

    interleave(prepare, operate, lambda repo: repo.runs.open("hour"), check)


@pytest.mark.parametrize("work", ["mark", "sweep"])
def test_collection_beside_many_puts_leaves_their_bytes_alone(work):
    def prepare(repo):
        start(repo)
        repo.create_branch("dev").put("garbage", b"g")
        repo.branch("dev").commit("garbage")
        repo.delete_branch("dev")
        days(repo, 2)
        if work == "sweep":
            repo.gc.mark()
            days(repo, 8)

    def check(world, outcome, swept):
        assert outcome == Transfer(5, 5)
        assert not isinstance(swept, GravelerError), swept
        repo = world.repo(scripted=False)
        assert tree(repo.branch("main")) == NEW
        days(repo, 9)
        repo.gc.run()
        days(repo, 9)
        repo.gc.run()
        assert tree(repo.branch("main")) == NEW
        check_sound(repo)
        assert everything(repo)

    interleave(
        prepare,
        lambda repo: repo.branch("main").put_many(ITEMS, threads=1),
        mark if work == "mark" else sweep,
        check,
    )
