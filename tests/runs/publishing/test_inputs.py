"""The inputs of a run are merged, bounded, kept with its next commit, and not lost by a retry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import CorruptionError
from graveler.runs.attempt import Reads
from graveler.runs.record import Input, decode_inputs, encode_inputs, folded
from graveler.testing.faults import unavailable
from tests.harness.worlds import ScriptedWorld

KEY = "hourly 05"

_prefixes = st.lists(st.sampled_from(["a", "b", "c d", "é"]), max_size=4).map("/".join)
_inputs = st.builds(Input, st.sampled_from(["c1", "c2", "c3"]), _prefixes)


@given(st.lists(_inputs, max_size=30))
def test_folding_covers_all_reads_names_each_once_and_repeats(inputs):
    short = folded(inputs)
    for read in inputs:
        assert any(
            read.commit == kept.commit and read.prefix.startswith(kept.prefix) for kept in short
        )
    for one in short:
        for other in short:
            covers = one.commit == other.commit and other.prefix.startswith(one.prefix)
            assert one is other or not covers
    assert folded(short) == short
    assert decode_inputs(encode_inputs(short)) == short


def test_little_of_many_reads_is_kept_and_all_are_covered():
    inputs = [Input("c", f"raw/{hour // 24:03}/{hour % 24:02}/{hour}") for hour in range(2_000)]
    short = folded(inputs)
    assert 1 <= len(short) <= 64
    assert all(any(one.prefix.startswith(kept.prefix) for kept in short) for one in inputs)
    assert len(folded([Input(f"{number:03}", "") for number in range(500)])) == 256
    reads = Reads()
    for read in inputs:
        reads.note(read.commit, read.prefix)
    assert len(reads.all) <= 64
    folders = tuple(Input(f"{number:03}", f"input/{number:03}/") for number in range(100))
    deep = [Input(read.commit, f"{read.prefix}{part}/") for read in folders for part in "ab"]
    assert folded(folders) == folded(deep) == folders
    with pytest.raises(CorruptionError):
        decode_inputs("[1]")


def test_reading_is_kept_with_the_next_commit_or_join_or_publish(repo):
    run = repo.runs.open(KEY)
    base = run.record.base
    run.get("settled")
    assert run.record.inputs == ()
    run.put("a", b"1")
    commit = run.commit("a")
    assert run.record.inputs == (Input(base, "settled"),)
    assert decode_inputs(commit.metadata["graveler.inputs"]) == run.record.inputs
    attached = repo.runs.attach(run.handle)
    with attached.step("one") as step:
        step.view("main").exists("x/y/z")
        step.put("b", b"1")
    read = Input(repo.commit("main").id, "x/y/")
    assert run.record.inputs == (Input(base, "settled"), read)
    assert decode_inputs(step.result.metadata["graveler.inputs"]) == (read,)
    run.reads("told/")
    assert run.view().name == "main"
    published = run.publish().commit
    assert set(run.record.inputs) == {Input(base, "settled"), read, Input(base, "told/")}
    assert decode_inputs(published.metadata["graveler.inputs"]) == run.record.inputs


def test_a_failed_step_has_no_inputs_resumed_ones_keep_theirs(repo):
    run = repo.runs.open(KEY)
    base = run.record.base
    with run.step("one") as step:
        step.get("settled")
        step.put("a", b"1")
    with pytest.raises(RuntimeError), run.step("two") as step:
        step.exists("never/x")
        raise RuntimeError
    run.park()
    again = repo.runs.open(KEY)
    with again.step("two") as step:
        step.exists("other/x")
        step.put("b", b"1")
    again.publish()
    assert again.record.inputs == (Input(base, "other/"), Input(base, "settled"))
    assert repo.runs.open(KEY).record.inputs == ()  # a new round has no inputs


def test_what_could_not_be_kept_is_kept_by_the_next_try():
    world = ScriptedWorld()
    run = world.repo().runs.open(KEY)
    run.exists("raw/x")
    run.put("a", b"1")
    world.script.arm(1, unavailable)
    with pytest.raises(Exception, match="no answer"):
        run.commit("a")
    assert world.script.disarm()
    run.commit("a")
    assert [read.prefix for read in run.record.inputs] == ["raw/"]
