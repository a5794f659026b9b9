"""Search the repository for turns that its prose does not use.

`python -m tests.house.turns` prints `file:line: turn` and exits with status 1 where a place is
not clean. `banned_turns.txt` holds the turns. `turns_left.txt` holds, for each folder that is
not clean yet, the number of places that remain; a folder may only get better.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("graveler", "integrations", "dags", "docs", "tests", "README.md", "Makefile")
SUFFIXES = {".py", ".md", ".yml", ".toml", ".html", ".txt", ".sh", ""}
TURNS = Path(__file__).with_name("banned_turns.txt")
LEFT = Path(__file__).with_name("turns_left.txt")
SKIPPED = {"banned_turns.txt", "turns_left.txt", "test_turns.py"}


def turns(text: str) -> dict[str, str]:
    """Return the pattern of each turn and what to write instead."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split(" -> ", 1) for line in lines)


def places(text: str, banned: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the line number and the words of each banned turn; a turn may span two lines."""
    either = "|".join(banned).replace(" ", r"[\s#]+")
    pattern = re.compile(rf"(?<![\w'])(?:{either})(?!\w)", re.IGNORECASE)
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, " ".join(match.group().split())


def files(root: Path) -> Iterator[Path]:
    """Yield the files that are searched, in order."""
    for place in PLACES:
        start = root / place
        found = [start] if start.is_file() else sorted(start.rglob("*"))
        for path in found:
            built = {"__pycache__", "_build"} & set(path.parts)
            if (
                path.is_file()
                and path.suffix in SUFFIXES
                and not built
                and path.name not in SKIPPED
            ):
                yield path


def folder(path: Path) -> str:
    """Return the folder that counts a file: two levels, or one for docs and dags."""
    parts = path.parts
    if parts[0] in {"docs", "dags"} or len(parts) < 2:
        return parts[0]
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def main(arguments: list[str]) -> int:
    """Print the places; `--write` records their number as the number that remains."""
    banned = turns(TURNS.read_text("utf-8"))
    hits: dict[str, list[str]] = {}
    for path in files(ROOT):
        name = path.relative_to(ROOT)
        for line, words in places(path.read_text("utf-8", errors="replace"), banned):
            hits.setdefault(folder(name), []).append(f"{name}:{line}: {words}")
    count = Counter({place: len(lines) for place, lines in hits.items()})
    if arguments == ["--write"]:
        LEFT.write_text("".join(f"{count[place]} {place}\n" for place in sorted(count)), "utf-8")
        return 0
    left = {place: int(n) for n, place in map(str.split, LEFT.read_text("utf-8").splitlines())}
    worse = [place for place in sorted(hits) if count[place] > left.get(place, 0)]
    for place in worse:
        sys.stdout.write("\n".join(hits[place]) + "\n")
        sys.stdout.write(f"{place}: {count[place]} banned turns, at most {left.get(place, 0)}\n")
    better = [place for place in sorted(left) if count[place] < left[place]]
    if better and not worse:
        sys.stdout.write(f"cleaner than recorded: {', '.join(better)}; run with --write\n")
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
