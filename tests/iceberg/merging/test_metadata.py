"""Three-way rules for schemas, specs, sort orders, properties, refs and statistics."""

import pytest
from pyiceberg.table.update import SetPartitionStatisticsUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from tests.harness.iceberg_lines import Line, new_line
from tests.harness.iceberg_merges import merge, started


def schema(**calls):
    """Return work that changes the schema: methods of PyIceberg's update with their arguments."""

    def change(transaction):
        with transaction.update_schema(allow_incompatible_changes=True) as update:
            for name, arguments in calls.items():
                getattr(update, name)(*arguments)

    return lambda line: line.change(change)


def spec(name, column="value"):
    def change(transaction):
        with transaction.update_spec() as update:
            update.add_field(column, IdentityTransform(), name)

    return lambda line: line.change(change)


def sort(column):
    def change(transaction):
        with transaction.update_sort_order() as update:
            update.asc(column, IdentityTransform())

    return lambda line: line.change(change)


def tag(name, *, back=0, branch=False):
    """Return work that names a snapshot, so many before the head."""

    def work(line):
        number = line.metadata.snapshots[-1 - back].snapshot_id

        def change(transaction):
            with ManageSnapshots(transaction) as update:
                (update.create_branch if branch else update.create_tag)(number, name)

        line.change(change)

    return work


def both(*work):
    return lambda line: [one(line) for one in work]


EXTRA = {"add_column": ("extra", LongType())}
ADD = schema(**EXTRA)
CASES = {
    "property": (lambda x: x.set(owner="x"), lambda x: x.set(team="y"), None),
    "property twice": (lambda x: x.set(owner="x"), lambda x: x.set(owner="y"), "property owner"),
    "same column": (ADD, ADD, None),
    "other column": (ADD, schema(add_column=("more", LongType())), "column 4"),
    "column of an id that was dropped": (
        both(ADD, Line.append, schema(delete_column=("extra",))),
        schema(add_column=("more", LongType())),
        "column 4",
    ),
    "column and rename": (ADD, schema(rename_column=("value", "amount")), None),
    "rename and column": (schema(rename_column=("value", "amount")), ADD, None),
    "two renames": (
        schema(rename_column=("value", "amount")),
        schema(rename_column=("value", "size")),
        "column 3",
    ),
    "rename and drop": (
        schema(rename_column=("value", "amount")),
        schema(delete_column=("value",)),
        "column 3",
    ),
    "drop and column": (schema(delete_column=("value",)), ADD, None),
    "one name": (schema(rename_column=("value", "extra")), ADD, "schema"),
    "order and column": (schema(move_first=("value",)), ADD, None),
    "two orders": (schema(move_first=("value",)), schema(move_first=("part",)), "order of columns"),
    "documentation and column": (
        schema(update_column=("value", LongType(), None, "size")),
        ADD,
        None,
    ),
    "same spec": (spec("by"), spec("by"), None),
    "two specs": (
        spec("by"),
        spec("by", "id"),
        "partition spec 1",
    ),
    "spec and drop": (
        spec("by"),
        schema(delete_column=("value",)),
        "schema",
    ),
    "spec and column": (spec("by"), ADD, None),
    "sort orders": (sort("value"), sort("id"), "sort order 1"),
    "sort order": (sort("value"), lambda x: x.set(owner="x"), None),
    "tag": (tag("v1"), Line.append, None),
    "tag of the run": (both(Line.append, tag("v1")), Line.append, None),
    "two tags": (tag("v1"), tag("v1", back=1), "ref v1"),
    "branch": (tag("audit", back=1, branch=True), Line.append, None),
    "upgrade": (lambda x: x.change(lambda t: t.upgrade_table_version(2)), Line.append, None),
}


OF_FORMAT_1 = [
    "upgrade",
    "other column",
    "rename and column",
    "spec and column",
    "sort order",
    "tag",
]


@pytest.mark.parametrize(
    ("version", "case"), [*((2, case) for case in CASES), *((1, case) for case in OF_FORMAT_1)]
)
def test_a_rule(version, case):
    here, there, refused = CASES[case]
    base = started(version)
    for first, second in ((here, there), (there, here)):
        source, dest = base.fork(), base.fork()
        first(source)
        second(dest)
        source.append()
        dest.append("b")
        merged = merge(base, source, dest)
        if refused:
            assert merged.operation == refused
            continue
        ids = {field.field_id for field in merged.metadata.schema().fields}
        rows = (tuple(pair for pair in row if pair[0] in ids) for row in merged.rows)
        assert merged.read() == sorted(rows)
        for side in (source, dest):
            changed = {*side.metadata.properties.items()} - {*base.metadata.properties.items()}
            assert changed <= {*merged.metadata.properties.items()}
            assert side.metadata.refs.keys() <= merged.metadata.refs.keys()
            assert side.metadata.format_version <= merged.metadata.format_version
            assert side.metadata.last_column_id <= merged.metadata.last_column_id
        text = merged.metadata.model_dump_json()
        assert type(merged.metadata).model_validate_json(text) == merged.metadata


def test_columns_keep_the_order_of_the_side_that_changed_it():
    base = started()
    source, dest = base.fork(), base.fork()
    schema(move_first=("value",))(source)
    ADD(dest)
    for one, other in ((source, dest), (dest, source)):
        merged = merge(base, one, other)
        assert merged.metadata.schema().column_names == ["value", "id", "part", "extra"]


def test_a_branch_of_the_table_on_a_rebased_snapshot_is_refused():
    base = started()
    source, dest = base.fork(), base.fork()
    source.append("b")
    tag("audit", branch=True)(source)
    source.change(lambda t: t.append(source.frame(source.fresh("b")), branch="audit"))
    dest.append()
    assert merge(base, source, dest).operation == "ref audit"


def test_a_branch_on_a_rebased_snapshot_is_refused():
    base = started()
    source, dest = base.fork(), base.fork()
    source.append("b")
    dest.append()
    merged, base = merge(base, source, dest), source.fork()
    tag("audit", branch=True)(source)
    source.change(lambda t: t.append(source.frame(source.fresh("b")), branch="audit"))
    assert merge(base, source, merged).operation == "ref audit"


def test_snapshots_beside_the_history_are_kept():
    base = started()
    source, dest = base.fork(), base.fork()
    source.change(lambda t: t.append(source.frame(source.fresh("b")), branch=None))
    staged = source.metadata.snapshots[-1]
    tag("audit", branch=True)(source)
    source.change(lambda t: t.append(source.frame(source.fresh("b")), branch="audit"))
    named = source.metadata.snapshots[-1]
    dest.append()
    merged = merge(base, source, dest)
    assert merged.read() == sorted(merged.rows)
    assert merged.metadata.snapshots == [*dest.metadata.snapshots, staged, named]
    assert merged.metadata.refs["audit"].snapshot_id == named.snapshot_id
    assert merged.metadata.last_sequence_number == source.metadata.last_sequence_number


def measured(line, number, size):
    """Add statistics of a snapshot."""
    fields = {"snapshot-id": number, "statistics-path": f"{size}.stats", "file-size-in-bytes": size}
    update = SetPartitionStatisticsUpdate.model_validate({"partition-statistics": fields})
    line.metadata = update_table_metadata(line.metadata, (update,))


def test_statistics_of_a_rebased_snapshot_are_left_out():
    base = started()
    first, second = (one.snapshot_id for one in base.metadata.snapshots[:2])
    source, dest = base.fork(), base.fork()
    source.append()
    dest.append("b")
    measured(source, first, 1)
    measured(source, second, 2)
    measured(dest, second, 3)
    for size, line in ((4, source), (5, dest)):
        measured(line, line.metadata.current_snapshot_id, size)
    merged = merge(base, source, dest)
    found = merged.metadata.partition_statistics
    assert sorted(one.file_size_in_bytes for one in found) == [1, 3, 5]
    later = source.fork()  # and of one that an earlier merge rebased
    measured(later, source.metadata.current_snapshot_id, 6)
    later.set(owner="x")
    found = merge(source, later, merged).metadata.partition_statistics
    assert sorted(one.file_size_in_bytes for one in found) == [1, 3, 5]


def test_tables_that_are_not_one_table_are_refused(tmp_path):
    base, other = started(), new_line(tmp_path)
    changed = base.fork()
    changed.append()
    assert merge(None, base, other).operation == "create"
    assert merge(base, changed, other).operation == "replacement"
    for source, dest in ((changed, None), (None, changed)):
        conflict = merge(base, source, dest)
        assert (conflict.operation, conflict.partitions) == ("drop", ())
