"""Comparison of a program's output with the output that a page shows."""

import re

UNSTABLE = {
    r"20[2-9]\d-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: UTC|Z)?": "TIME",
    r"\b20[2-9]\d{5}-\d{6}-[0-9a-f]{6}\b": "MARK",
    r"\b(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{12})\b": "ID",
    r"\b\d+(?:\.\d+)? (?:B|[KMGT]iB)(?!\w)": "SIZE",
    r"\b\d+(?:\.\d+)? ?(?:s|seconds)\b": "SECONDS",
    r"\d+ calls, (\d+) of \d+ disturbances": r"CALLS, \1 DISTURBANCES",
}
"""Patterns of text that differs between runs, with their replacements."""

_ID = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{12}|20[2-9]\d{5}-\d{6}-[0-9a-f]{6})\b")
_ANYTHING = re.compile(r"…|\.\.\.")


def matches(shown: str, printed: str) -> bool:
    """Compare both after normalisation. `…` and `...` in the shown text match anything."""
    parts = (re.escape(normal(part)) for part in _ANYTHING.split(shown))
    pattern = r"\s?.*\s?".join(parts)
    return re.fullmatch(rf"\s?{pattern}\s?", normal(printed), re.DOTALL) is not None


def normal(text: str) -> str:
    """Return the text with single spaces, and with names for what differs between runs."""
    for pattern, name in UNSTABLE.items():
        text = re.sub(pattern, name, text)
    return " ".join(text.split())


def bindings(shown: str, printed: str) -> dict[str, str]:
    """Return the ids that a page shows, with the ids at the same places in this run."""
    before = _ANYTHING.split(shown)[0]
    return dict(zip(_ID.findall(before), _ID.findall(printed), strict=False))
