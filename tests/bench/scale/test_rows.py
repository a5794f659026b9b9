"""The helpers of the benchmark at scale, and the page of its rows."""

import math
import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from tests.bench.__main__ import SCALE
from tests.bench.measure import Result, reported
from tests.bench.scale import __main__ as scale
from tests.bench.scale.__main__ import section
from tests.bench.scale.children import ChildError, in_child, rate, with_memory
from tests.bench.scale.place import entry_of, path_of
from tests.bench.scale.plots import Plot
from tests.bench.scale.rows import ROWS
from tests.bench.scale.table import at_least, at_most

ENTRIES = 40_000


def test_paths_come_in_the_order_of_their_numbers():
    paths = [path_of(number) for number in range(0, 2_000_000, 997)]
    assert sorted(paths, key=str.encode) == paths


def test_entries_differ_in_address_checksum_size_and_time():
    entries = [entry_of(number) for number in range(2_000)]
    for name in ("path", "address", "checksum", "size", "mtime"):
        assert len({getattr(entry, name) for entry in entries}) == len(entries)


@pytest.mark.parametrize(
    ("call", "argument", "words"),
    [
        (math.sqrt, -1, "ValueError: math domain error"),
        (sys.exit, 3, "SystemExit: 3"),
        (os._exit, 3, r"ended without an answer, with \[3\]"),
    ],
)
def test_what_goes_wrong_in_a_child_is_raised(call, argument, words):
    with pytest.raises(ChildError, match=words):
        in_child(call, argument)


def test_processes_that_wait_for_one_that_died_are_ended():
    began = time.monotonic()
    with pytest.raises(ChildError, match="ended without an answer"):
        rate(_dies)
    assert time.monotonic() - began < 60
    assert multiprocessing.active_children() == []


def _dies(ready, number):
    if number:
        os._exit(3)
    ready()


def test_each_row_is_shown_when_it_is_done(monkeypatch, capsys, tmp_path):
    def row(name, place):
        if name == "start":
            return [Result("row `start`", "fails", "runs", holds=False, details="ValueError")], []
        shown = capsys.readouterr().out
        assert "| row `start` | fails | runs | **no** | ValueError |" in shown
        return [reported("wall", "1 s")], []

    monkeypatch.setattr(scale, "measured", row)
    at = ["--folder", str(tmp_path), "--entries", "8"]
    assert scale.main(["start", "wall", *at]) == 1
    shown = capsys.readouterr().out
    assert "| wall | 1 s |  |" in shown
    assert "1 of 2 do not hold: row `start`" in shown


def test_the_page_is_written_when_all_rows_have_run(monkeypatch, capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Benchmarks\n", "utf-8")
    monkeypatch.setattr(scale, "PAGE", page)
    monkeypatch.setattr(scale, "IMAGES", tmp_path)
    monkeypatch.setattr(scale, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(scale, "bare_step", lambda: 50.0)
    monkeypatch.setattr(scale, "random_read", lambda: 9.0)
    plot = Plot("one", "One", ("x", "y"), {"a": [1.0, 2.0]})
    monkeypatch.setattr(scale, "measured", lambda name, _: ([reported(name, "1 s")], [plot]))
    first, *others = ROWS
    at = ["--folder", str(tmp_path)]
    assert scale.main([first, *at, "--entries", "8"]) == 0
    assert "it shows runs of 10,000,000 entries only\n" in capsys.readouterr().out
    assert scale.main([*others, *at]) == 0
    assert f"stays as it is until these rows have run, too: {first}\n" in capsys.readouterr().out
    assert SCALE not in page.read_text("utf-8")
    assert scale.main([first, *at]) == 0
    text = page.read_text("utf-8")
    assert [f"| {name} | 1 s |" in text for name in ROWS] == [True] * len(ROWS)
    assert "The lake holds 10,000,000 entries" in text
    assert (tmp_path / "bench-one.svg").exists()


def test_the_memory_of_a_process_is_its_peak():
    _, before = with_memory(lambda: None)
    size, after = with_memory(lambda: len(bytearray(64 << 20)))
    assert size == 64 << 20
    assert after.resident >= before.resident


def test_a_limit_is_shown_in_the_unit_of_its_figure():
    assert at_least("x", 1_234_567, 1_500_000, "/s").figure == "1,234,567/s"
    assert not at_least("x", 1_234_567, 1_500_000, "/s").holds
    assert at_most("x", 1.234, 1.5, " µs").holds
    assert at_most("x", 1.234, 1.5, " µs").limit == "at most 1.5 µs"


def test_the_part_of_the_page_begins_with_its_mark():
    plot = Plot("hourly", "A < B", ("commit", "ranges"), {"graveler": [1, 2], "other": [2.5]})
    limited = [at_most("a row", 1, 2, " ms")]
    text = section(ENTRIES, ["2026-01-01"], {"stat": (51.7, 9.6)}, limited, {"hourly": "A < B"})
    assert text.startswith(SCALE)
    assert "| a row | 1 ms | at most 2 ms | yes |" in text
    assert "in nanoseconds: stat 52 and 10." in text
    assert "(images/bench-hourly.svg)" in text
    assert "A &lt; B" in plot.svg()


def test_an_unknown_row_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.scale", "nothing"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "the rows are stat_many" in done.stderr
