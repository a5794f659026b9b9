"""The runs as a table, and the hour that was stopped."""

from graveler.demo.report_markup import Markup, tag
from graveler.demo.story import DemoResult, HourResult
from graveler.gates import Verdict

__all__ = ["runs_table", "stopped_hour"]

_COLUMNS = (
    ("hour (UTC)", ""),
    ("state", ""),
    ("attempt", "n"),
    ("flights", "n"),
    ("gates", "gates"),
    ("ranges new", "n"),
    ("reused", "n"),
    ("seconds", "n"),
    ("main is at", ""),
)


def runs_table(result: DemoResult) -> Markup:
    """Return a row for each attempt at each hour, in the order they were made."""
    stopped = {run.key for run in result.runs if run.state != "PUBLISHED"}
    head = tag("tr", *(tag("th", name, class_=kind or None) for name, kind in _COLUMNS))
    rows = [_row(run, again=run.key in stopped) for run in result.runs]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide")


def _row(run: HourResult, *, again: bool) -> Markup:
    published = run.state == "PUBLISHED"
    state = "published" if published else "stopped"
    kind = "stopped" if not published else "again" if again else None
    cells = (
        f"{run.hour:%Y-%m-%d %H:%M}",
        tag("span", state, class_="state"),
        run.attempt,
        f"{run.rows:,}" if published else "-",
        _gates(run.verdicts),
        run.ranges_written if published else "-",
        run.ranges_reused if published else "-",
        f"{run.seconds:.1f}",
        tag("code", run.commit[:12]),
    )
    return tag(
        "tr",
        *(
            tag("td", cell, class_=name or None)
            for cell, (_, name) in zip(cells, _COLUMNS, strict=True)
        ),
        class_=kind,
    )


def _gates(verdicts: tuple[Verdict, ...]) -> Markup:
    marks = [_mark(said) for said in verdicts]
    reasons = [
        tag("small", f"{said.gate}: {said.reason}", class_=None if said.refuses else "warn")
        for said in verdicts
        if not said.passed
    ]
    return Markup("".join([*marks, *reasons]))


def _mark(said: Verdict) -> Markup:
    if said.passed:
        return tag("span", "✓", class_="mark", title=f"{said.gate}: passed")
    kind, sign = ("failed", "✕") if said.refuses else ("warned", "!")
    return tag("span", sign, class_=f"mark {kind}", title=f"{said.gate}: {said.reason}")


def stopped_hour(run: HourResult, result: DemoResult) -> Markup:
    """Return what happened to an hour that a gate stopped."""
    later = [again for again in result.runs if again.key == run.key and again.state == "PUBLISHED"]
    after = result.runs[result.runs.index(run) + 1 :]
    meanwhile = sum(other.state == "PUBLISHED" and other.key != run.key for other in after)
    reasons = [
        tag("li", tag("b", said.gate), f": {said.reason}") for said in run.verdicts if said.refuses
    ]
    end = "It waits on its branch for a newer attempt."
    if later:
        others = f"{meanwhile} later {'hour was' if meanwhile == 1 else 'hours were'}"
        end = (
            (f"{others} published meanwhile. " if meanwhile else "")
            + f"Then the hour arrived whole: attempt {later[-1].attempt} replaced what the first "
            f"one had made and brought {later[-1].rows:,} flights into main."
        )
    return tag(
        "section",
        tag("h2", f"{run.hour:%H:%M} arrived damaged and was stopped"),
        tag("ul", *reasons),
        tag("p", "Main did not move: it stayed at ", tag("code", run.commit[:12]), f". {end}"),
        class_="stopped-card",
    )
