"""The guide lists what the code reports, and a program without OpenTelemetry works."""

import re
import subprocess
import sys
from pathlib import Path

from graveler.base import telemetry

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guides" / "telemetry.md").read_text("utf-8")


def rows(heading):
    """Return the cells of the first table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_page_lists_every_metric_as_the_code_makes_it():
    listed = {
        name.strip("`"): (kind, unit.strip("`"), tuple(re.findall(r"`([^`]+)`", attributes)), what)
        for name, kind, unit, attributes, what in rows("Metrics")
    }
    assert listed == {
        name: (metric.kind, metric.unit, metric.attributes, metric.what)
        for name, metric in telemetry.METRICS.items()
    }


def test_the_page_lists_every_span_and_its_attributes():
    assert {name.strip("`"): what for name, what in rows("Spans")} == telemetry.SPANS
    attributes = [name.strip("`") for name, _ in rows("Attributes of spans")]
    assert attributes == list(telemetry.SPAN_ATTRIBUTES)


def test_a_process_without_opentelemetry_works(tmp_path):
    program = ROOT / "tests" / "telemetry" / "programs" / "without.py"
    done = subprocess.run(
        [sys.executable, program, tmp_path / "lake"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
