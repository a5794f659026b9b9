"""Pages and their blocks, by markers and languages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {"console", "sh", "python", "toml", "yaml", "json", "text"}

Tier = Literal["test", "real", "newcomer", "shown", "none"]

_PART = re.compile(
    r"^\#+\ (?P<heading>[^\n]+)$"
    r"|(?P<notes>(?:^<!--[^\n]*-->\n)*)"
    r"(?:^```(?P<language>\S*)\n(?P<text>.*?)^```$"
    r"|^<!--\ (?P<hidden>python|sh)\n(?P<code>.*?)^-->$)",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_NOTE = re.compile(r"<!-- (?P<name>run|not run|shows|file): (?P<value>.+) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block, or a block in a comment."""

    page: str
    line: int
    heading: str
    language: str
    text: str
    tier: Tier = "test"
    file: str = ""
    reason: str = ""
    shows: str = ""
    hidden: bool = False
    output: str | None = None

    @property
    def place(self) -> str:
        """The location of the block, for an editor and for a reader."""
        return f"{self.page}:{self.line} ({self.heading})"


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    name: str
    title: str
    blocks: tuple[Block, ...]

    def of(self, tier: Tier) -> list[Block]:
        """Return the blocks that a tier runs. `real` also runs the blocks of `test`."""
        tiers = {"test", "real"} if tier == "real" else {tier}
        chosen = [block for block in self.blocks if block.tier in tiers]
        return chosen if any(block.tier == tier for block in chosen) else []


def pages() -> list[Page]:
    """Return the README, the guides and the concepts that have blocks."""
    files = [ROOT / "README.md"]
    for folder in ("guides", "concepts"):
        files += sorted((ROOT / "docs" / folder).glob("*.md"))
    read = [parse(str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in files]
    return [page for page in read if page.blocks]


def real_pages(*, long: bool) -> list[Page]:
    """Return the pages whose blocks need an orchestrator or a JVM.

    Args:
        long: Return the Spark pages that start JVMs of their own, and not all other pages.
    """
    apart = ("docs/guides/spark-", "docs/guides/gateway")
    return [page for page in pages() if page.of("real") and page.name.startswith(apart) == long]


def parse(name: str, text: str) -> Page:
    """Return a page; an invalid fence, language or marker raises `ValueError`."""
    if re.search(r"^[ \t]+```", text, re.MULTILINE):
        message = f"{name}: a fence does not begin its line"
        raise ValueError(message)
    title = text.partition("\n")[0].removeprefix("# ")
    return Page(name, title, tuple(_with_outputs(list(_blocks(name, text)))))


def _blocks(page: str, text: str) -> Iterator[Block]:
    heading = ""
    for part in _PART.finditer(text):
        if part["heading"]:
            heading = part["heading"]
            continue
        group = "code" if part["hidden"] else "text"
        line = text.count("\n", 0, part.start(group)) + 1
        language = part["hidden"] or part["language"]
        if language not in LANGUAGES:
            message = f"{page}:{line}: language {language!r} is none of {sorted(LANGUAGES)}"
            raise ValueError(message)
        notes = _notes(f"{page}:{line}", part["notes"])
        marked: Tier = "none" if "not run" in notes else "shown" if "shows" in notes else "test"
        tier: Tier = notes.get("run") or marked  # type: ignore[assignment] # checked by _notes
        yield Block(
            page,
            line,
            heading,
            language,
            part[group],
            tier,
            notes.get("file", ""),
            notes.get("not run", ""),
            notes.get("shows", ""),
            bool(part["hidden"]),
        )


def _notes(place: str, comments: str) -> dict[str, str]:
    notes = {}
    for comment in comments.splitlines():
        match = _NOTE.fullmatch(comment)
        if not match or (match["name"] == "run" and match["value"] not in ("real", "newcomer")):
            message = f"{place}: {comment} is no marker"
            raise ValueError(message)
        notes[match["name"]] = match["value"]
    return notes


def _with_outputs(blocks: list[Block]) -> list[Block]:
    """Add a `text` block to the Python block before it; any other `text` block needs a marker."""
    result: list[Block] = []
    for block in blocks:
        if block.language != "text" or block.tier == "none" or block.file:
            result.append(block)
        elif result and result[-1].language == "python" and result[-1].output is None:
            result[-1] = replace(result[-1], output=block.text)
        else:
            message = f"{block.place}: neither the output of a Python block nor marked"
            raise ValueError(message)
    return result
