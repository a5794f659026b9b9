"""A bar chart of the changes in each folder, as an image inside Dagster's metadata."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Final

from graveler_common.changes import Folder

_ROWS: Final = 12
_NAME: Final = 44
_LEFT, _WIDE, _ROW, _TOP = 330, 300, 22, 30
_COLORS: Final = {"added": "#2e9e5b", "changed": "#d9a514", "removed": "#cf4b3f"}
_FONT: Final = "font-family='ui-monospace,Menlo,monospace' font-size='12'"


def plot(folders: Sequence[Folder], *, more: bool = False) -> str:
    """Return Markdown with an image: one bar for each of the largest folders, coloured by kind.

    Args:
        folders: The folders, in the order of their bars.
        more: Whether some files were not counted.
    """
    drawing = _draw(_largest(folders), more=more).encode()
    return f"![files changed, by folder](data:image/svg+xml;base64,{b64encode(drawing).decode()})"


def _largest(folders: Sequence[Folder]) -> list[Folder]:
    """Return the folders with the most files, and the sum of all others as one."""
    if len(folders) <= _ROWS:
        return list(folders)
    by_size = sorted(folders, key=lambda folder: -folder.files)
    largest = {folder.path for folder in by_size[: _ROWS - 1]}
    rest = [folder for folder in folders if folder.path not in largest]
    return [
        *(folder for folder in folders if folder.path in largest),
        Folder(
            f"{len(rest)} other folders",
            sum(folder.added for folder in rest),
            sum(folder.changed for folder in rest),
            sum(folder.removed for folder in rest),
        ),
    ]


def _draw(folders: Sequence[Folder], *, more: bool) -> str:
    longest = max((folder.files for folder in folders), default=1) or 1
    height = _TOP + _ROW * len(folders) + (20 if more else 6)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_LEFT + _WIDE + 60}' height='{height}'>",
        "<rect width='100%' height='100%' fill='#ffffff'/>",
        *_legend(),
    ]
    for number, folder in enumerate(folders):
        parts.extend(_row(folder, _TOP + number * _ROW, longest))
    if more:
        parts.append(_text(8, height - 6, "… and more that were not counted"))
    return "".join((*parts, "</svg>"))


def _legend() -> list[str]:
    parts = []
    for number, (kind, color) in enumerate(_COLORS.items()):
        left = _LEFT + number * 96
        parts.append(f"<rect x='{left}' y='8' width='10' height='10' fill='{color}'/>")
        parts.append(_text(left + 15, 17, kind))
    return parts


def _row(folder: Folder, top: int, longest: int) -> list[str]:
    name = folder.path or "/"
    short = name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"
    parts = [_text(_LEFT - 8, top + 13, short, anchor="end")]
    left = float(_LEFT)
    for kind, color in _COLORS.items():
        wide = _WIDE * getattr(folder, kind) / longest
        if wide:
            parts.append(
                f"<rect x='{left:.1f}' y='{top + 2}' width='{max(wide, 1.5):.1f}' "
                f"height='{_ROW - 7}' fill='{color}'/>"
            )
        left += wide
    parts.append(_text(round(left) + 6, top + 13, str(folder.files)))
    return parts


def _text(x: int, y: int, text: str, *, anchor: str = "start") -> str:
    return (
        f"<text x='{x}' y='{y}' text-anchor='{anchor}' fill='#333333' {_FONT}>{escape(text)}</text>"
    )
