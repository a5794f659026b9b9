"""The rebase: what is carried, what is read and written, what gives way and what is undone."""

from pathlib import Path
from typing import Any

import pyiceberg.manifest
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, ManifestContent, ManifestEntry
from pyiceberg.table.update import RemoveSnapshotsUpdate, update_table_metadata

from tests.harness.iceberg_lines import CountingIO, Line, new_line
from tests.harness.iceberg_merges import merge, started


@pytest.fixture
def base():
    return started()


def sides(base, here, there):
    """Return two branches after some work on each."""
    source, dest = base.fork(), base.fork()
    here(source)
    there(dest)
    return source, dest


def good(merged):
    """Return a merged line that has the rows of the model."""
    assert isinstance(merged, Line), merged
    assert merged.read() == sorted(merged.rows)
    return merged


def paths(line):
    return [one.manifest_path for one in line.manifests]


def test_an_append_copies_its_own_manifest_and_no_other(base):
    source, dest = sides(base, Line.append, lambda line: [line.append("b") for _ in range(3)])
    io = CountingIO()
    merged = merge(base, source, dest, io=io)
    lists = [line.metadata.current_snapshot().manifest_list for line in (dest, source)]
    assert sorted(io.reads) == sorted([*lists, paths(source)[0]])
    copy, *others = paths(good(merged))
    assert others == paths(dest)
    assert Path(copy).read_bytes() == Path(paths(source)[0]).read_bytes()
    head = merged.metadata.current_snapshot()
    assert head.snapshot_id == source.metadata.current_snapshot_id
    assert head.parent_snapshot_id == dest.metadata.current_snapshot_id
    assert head.sequence_number == dest.metadata.last_sequence_number + 1
    assert merged.manifests[0].sequence_number == head.sequence_number


def test_an_overwrite_reads_only_manifests_of_its_partition(base):
    source, dest = sides(base, lambda line: line.overwrite("b"), Line.append)
    io = CountingIO()
    merged = good(merge(base, source, dest, io=io))
    of_b = [m.manifest_path for e, m in base.entries() if base.part_of(e.data_file) == "b"]
    assert {*paths(base)}.intersection(io.reads) == {*of_b}
    assert {*paths(base)} - {*paths(merged)} == {*of_b}


def test_a_manifest_of_deletes_that_loses_a_file_stays_one(base):
    base = base.fork()
    base.append("b")
    base.delete("ab")
    source, dest = sides(base, Line.compact, lambda line: line.append("b"))
    merged = good(merge(base, source, dest))
    new = [one for one in merged.manifests if one.manifest_path not in paths(source) + paths(dest)]
    deletes = [one for one in new if one.content == ManifestContent.DELETES]
    assert [one.partition_spec_id for one in deletes] == [0, 0]
    for one in deletes:
        file: AvroFile[ManifestEntry] = AvroFile(
            merged.io.new_input(one.manifest_path), MANIFEST_ENTRY_SCHEMAS[2]
        )
        with file:
            assert (file.header.meta["content"], file.header.meta["format-version"]) == (
                "deletes",
                "2",
            )


def test_manifests_that_an_engine_merged_do_not_list_files_twice(base):
    base = base.fork()
    base.set(commit_manifest__merge_enabled="true", commit_manifest_min__count__to__merge="2")
    source, dest = sides(base, lambda line: [line.append(), line.append("b")], Line.append)
    assert len(paths(source)) < len(paths(base))
    files = [entry.data_file.file_path for entry, _ in good(merge(base, source, dest)).entries()]
    assert len(files) == len({*files})


def test_explicit_sequence_numbers_follow_their_snapshots(base):
    def append_and_compact(line):
        line.append("b")
        line.compact("b", number=line.metadata.last_sequence_number)

    source, dest = sides(base, append_and_compact, lambda line: [line.append(), line.append()])
    merged = good(merge(base, source, dest))
    appended, compacted = merged.metadata.snapshots[-2:]
    newest = next(
        entry for entry, one in merged.entries() if one.added_snapshot_id == compacted.snapshot_id
    )
    assert newest.sequence_number == appended.sequence_number > dest.metadata.last_sequence_number


def test_a_compaction_gives_way_and_the_rest_of_the_run_lands(base):
    source, dest = sides(base, lambda line: [line.compact(), line.append("b")], Line.delete)
    merged = good(merge(base, source, dest))
    left_out = source.metadata.snapshots[-2]
    assert left_out.snapshot_id not in {one.snapshot_id for one in merged.metadata.snapshots}


@pytest.mark.parametrize("later", [Line.delete, Line.drop_part])
def test_what_builds_on_a_compaction_that_gave_way_is_refused(base, later):
    source, dest = sides(base, lambda line: [line.compact(), later(line)], Line.delete)
    conflict = merge(base, source, dest)
    assert "a compaction of its own" in conflict.reason
    assert conflict.partitions == ("part=a",)


@pytest.mark.parametrize("change", [Line.delete, Line.rewrite, Line.overwrite])
def test_a_compaction_of_the_destination_is_undone_for_a_change(base, change):
    source, dest = sides(base, change, lambda line: [line.append("b"), line.compact()])
    merged = good(merge(base, source, dest))
    after = merged.metadata.snapshots[len(dest.metadata.snapshots) :]
    assert after[0].summary.operation.value == "replace"
    assert after[0].parent_snapshot_id == dest.metadata.current_snapshot_id


def test_a_compaction_that_was_changed_again_is_not_undone(base):
    source, dest = sides(base, Line.delete, lambda line: [line.compact(), line.delete()])
    assert "compacted since the base, and then changed again" in merge(base, source, dest).reason


def test_two_compactions_in_a_row_are_undone(base):
    source, dest = sides(base, Line.delete, lambda line: [line.compact(), line.compact(least=1)])
    merged = good(merge(base, source, dest))
    operations = [one.summary.operation.value for one in merged.metadata.snapshots[-5:]]
    assert operations == ["replace", "replace", "replace", "replace", "delete"]


def test_appends_combine_unless_the_table_says_otherwise(base):
    strict = base.fork()
    strict.set(graveler_merge="partition")
    good(merge(base, *sides(base, Line.append, Line.append)))
    conflict = merge(strict, *sides(strict, Line.append, Line.append))
    assert (conflict.operation, conflict.partitions) == ("append", ("part=a",))
    good(merge(strict, *sides(strict, Line.append, lambda line: line.append("b"))))


def test_a_conflict_names_the_runs_of_its_snapshots(base):
    strict = base.fork()
    strict.set(graveler_merge="partition")
    source, dest = sides(
        strict,
        lambda line: line.append(run="hourly 05"),
        lambda line: [line.append("b", run="hourly 04"), line.append(run="hourly 06")],
    )
    conflict = merge(strict, source, dest)
    assert (conflict.source, conflict.dest) == ("hourly 05", "hourly 06")
    assert str(conflict) == (
        "table 'db.t': append by 'hourly 05' in part=a against 'hourly 06': there is new data since the "
        "base, which it has not seen; nothing has landed: do it again from the present head"
    )


def test_a_conflict_leaves_no_file(base):
    source, dest = sides(base, lambda line: [line.append("b"), line.overwrite()], Line.append)
    folder = Path(base.metadata.location)
    before = sorted(folder.rglob("*"))
    assert merge(base, source, dest).operation == "delete"
    assert sorted(folder.rglob("*")) == before


def test_a_table_that_one_side_changed_is_taken_whole(base):
    changed, io = base.fork(), CountingIO()
    changed.append()
    assert merge(base, changed, base, io=io).metadata is changed.metadata
    assert merge(base, base, changed, io=io).metadata is changed.metadata
    assert merge(base, changed, changed, io=io).metadata is changed.metadata
    assert io.reads == []


def test_snapshots_stay_as_they_are_on_a_head_that_did_not_move(base):
    source, dest = sides(
        base, lambda line: [line.compact(), line.append()], lambda line: line.set(owner="x")
    )
    merged = good(merge(base, source, dest))
    assert merged.metadata.snapshots == source.metadata.snapshots
    assert merged.metadata.properties["owner"] == "x"


@pytest.mark.parametrize("version", [1, 2])
def test_a_snapshot_that_was_rebased_is_not_the_head_of_the_base(version):
    base = started(version).fork()
    base.append()
    source, dest = base.fork(), base.fork()
    dest.append("b")
    source.change(
        lambda t: t.append(source.frame(source.fresh("b")), branch=None)
    )  # takes a number
    source.append()
    dest = good(merge(base, source, dest))
    base = source.fork()
    assert base.metadata.current_snapshot_id == dest.metadata.current_snapshot_id
    source.append()
    good(merge(base, source, dest))


def without(line, *numbers):
    update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": numbers})
    line.metadata = update_table_metadata(line.metadata, (update,))


def test_after_an_expiry_appends_merge_and_overwrites_do_not(base):
    past = [one.snapshot_id for one in base.metadata.snapshots]

    def expire(line):
        line.append("b")
        without(line, *past)

    source, dest = sides(base, Line.append, expire)
    good(merge(base, source, dest))
    source, dest = sides(base, Line.overwrite, expire)
    assert "unknown" in merge(base, source, dest).reason
    source, dest = sides(base, expire, Line.append)
    assert merge(base, source, dest).operation == "replacement"


def test_old_snapshots_that_expired_on_one_side_are_not_changes(base):
    first = base.metadata.snapshots[0].snapshot_id

    def expire(line):
        line.append("b")
        without(line, first)

    good(merge(base, *sides(base, expire, Line.delete)))
    good(merge(base, *sides(base, Line.delete, expire)))


@pytest.mark.parametrize(
    "undo", [Line.append, Line.delete, Line.overwrite, Line.compact, Line.rewrite]
)
def test_a_revert_undoes_snapshots_of_the_destination(base, undo):
    reverted = base.fork()
    undo(reverted)
    dest = reverted.fork()
    dest.append("b")
    merged = good(merge(reverted, base, dest))
    assert len(merged.metadata.snapshots) > len(dest.metadata.snapshots)
    again = merge(reverted, base, merged)
    assert not isinstance(again, Line) or good(again).rows == merged.rows


@pytest.mark.parametrize("gone", [Line.delete, Line.delete_equal])
def test_a_revert_takes_no_delete_back_whose_file_is_gone(base, gone):
    source, dest = sides(base, lambda line: line.overwrite("b"), lambda line: gone(line, "b"))
    merged = merge(base, source, dest)
    assert "have been removed" in merge(dest, base, merged).reason


@pytest.mark.parametrize("gone", [Line.delete, Line.delete_equal])
def test_a_revert_does_not_bring_back_files_that_lost_rows(base, gone):
    source, dest = sides(base, lambda line: line.overwrite("b"), lambda line: gone(line, "b"))
    merged = good(merge(base, source, dest))
    assert "rows were deleted" in merge(source, base, merged).reason


def test_a_revert_keeps_new_data_of_its_partition(base):
    for undo in (Line.append, Line.overwrite, Line.delete_equal, Line.drop_part):
        reverted = base.fork()
        undo(reverted)
        dest = reverted.fork()
        dest.append()
        good(merge(reverted, base, dest))


@pytest.mark.parametrize("change", [Line.drop_part, Line.delete, Line.delete_equal])
def test_a_revert_leaves_no_changed_rows(base, change):
    reverted = base.fork()
    reverted.append()
    dest = reverted.fork()
    change(dest)
    good(merge(reverted, base, dest))
    dest.append()
    assert "there is new data" in merge(reverted, base, dest).reason


def test_the_result_is_the_next_version_of_the_destination(base):
    source, dest = sides(
        base, lambda line: [line.append(), line.overwrite("b")], lambda line: line.append("a")
    )
    merged = good(merge(base, source, dest)).metadata
    assert merged.location == dest.metadata.location
    assert merged.table_uuid == dest.metadata.table_uuid
    assert merged.metadata_log[-1].metadata_file == "dest.json"
    times = [one.timestamp_ms for one in merged.snapshot_log]
    assert times == sorted(times)
    assert times[-1] == merged.last_updated_ms >= dest.metadata.last_updated_ms
    numbers = [one.sequence_number for one in merged.snapshots]
    assert numbers == sorted({*numbers})
    assert merged.last_sequence_number == numbers[-1]
    assert type(merged).model_validate_json(merged.model_dump_json()) == merged


def test_new_files_are_below_the_folder_that_is_given(base, tmp_path):
    source, dest = sides(base, Line.append, Line.append)
    merged = good(merge(base, source, dest, folder=f"{tmp_path}/t"))
    assert merged.metadata.location == f"{tmp_path}/t"
    assert merged.metadata.current_snapshot().manifest_list.startswith(
        f"{tmp_path}/t/metadata/snap-"
    )


def test_totals_of_a_summary_are_those_of_the_new_head(base):
    lone = new_line(Path(base.metadata.location).parent)
    lone.append()
    source, dest = sides(
        lone, lambda line: line.overwrite("a"), lambda line: [line.append("b")] * 2
    )
    summary = good(merge(lone, source, dest)).metadata.current_snapshot().summary
    assert (summary["total-records"], summary["total-data-files"]) == ("6", "2")
    assert summary["added-records"] == "3"


def test_pyiceberg_in_one_process_sees_the_new_sequence_numbers(base, monkeypatch):
    cache = pyiceberg.manifest._ManifestCache()
    monkeypatch.setattr(pyiceberg.manifest, "_manifest_cache", cache)
    source, dest = sides(base, Line.append, Line.append)
    source.scanned()
    assert len(cache) > 0
    merged = merge(base, source, dest)
    head = merged.metadata.current_snapshot()
    assert [one.sequence_number for one in head.manifests(merged.io)] == [
        one.sequence_number for one in merged.manifests
    ]


def test_ids_of_equality_deletes_are_written_as_ints(base):
    base.delete_equal("a")
    deletes = next(one for one in base.manifests if one.content == ManifestContent.DELETES)
    with AvroFile[Any](base.io.new_input(deletes.manifest_path)) as opened:
        assert str(opened.schema.find_type("data_file.equality_ids")) == "list<int>"


def test_a_compaction_beneath_known_deletes_gives_way(base):
    compacted, other = base.fork(), base.fork()
    compacted.compact("a")
    other.delete_equal("a")
    both = good(merge(base, other, compacted))
    deleted = other.fork()
    other.append("b")
    merged = good(merge(deleted, both, other))
    assert merged.metadata.current_snapshot().summary.operation.value == "append"


def test_a_drop_of_compacted_files_is_not_lost(base):
    source, dest = sides(base, lambda line: line.compact("a"), lambda line: line.compact("a"))
    source.append("b")
    merged = good(merge(base, source, dest))
    before = source.fork()
    source.drop_part("a")
    assert "compaction" in merge(before, source, merged).reason
