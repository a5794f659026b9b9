"""Which files of a table a compaction combines."""

from graveler.model import Entry
from graveler.spark.compaction import bins


def files(**sizes):
    """Return files named by folder and position: ``a=[5, 5]`` are two files in ``dt=a/``."""
    return [
        (name, Entry(f"t/{name}", "data/x", size))
        for folder, several in sizes.items()
        for number, size in enumerate(several)
        for name in [f"{f'dt={folder}/' if folder != 'root' else ''}{number}"]
    ]


def packed(target, **sizes):
    return [
        (one.folder, [relative.rpartition("/")[2] for relative, _ in one.files])
        for one in bins(files(**sizes), target)
    ]


def test_small_files_of_a_partition_are_put_together_in_order():
    assert packed(100, a=[10, 20, 30], b=[40, 50]) == [
        ("dt=a/", ["0", "1", "2"]),
        ("dt=b/", ["0", "1"]),
    ]
    assert packed(100, root=[10, 20]) == [("", ["0", "1"])]


def test_a_partition_that_needs_nothing_stays():
    assert packed(100, a=[10], b=[75, 75, 200], c=[10, 90]) == []


def test_no_file_becomes_larger_than_it_is_wanted():
    assert packed(100, a=[60, 30, 20, 10, 70]) == [
        ("dt=a/", ["0", "1"]),
        ("dt=a/", ["2", "3", "4"]),
    ]


def test_what_is_put_together_is_not_put_together_again():
    sizes = [30] * 10
    once = [sum(entry.size for _, entry in one.files) for one in bins(files(a=sizes), 100)]
    assert once == [90, 90, 90]
    assert packed(100, a=once) == []


def test_values_of_a_partition_are_those_of_its_folder():
    (one,) = bins([(f"dt=15%3A00/{n}", Entry("t/x", "data/x", 1)) for n in range(2)], 100)
    assert one.values == (("dt", "15:00"),)
    assert bins([(f"dt=/{n}", Entry("t/x", "data/x", 1)) for n in range(2)], 100) == []
