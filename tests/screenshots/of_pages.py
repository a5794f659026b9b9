"""Pictures of the pages of `graveler ui`, wide and narrow, light and dark."""

import tempfile
from pathlib import Path

import graveler
from graveler.server.pages import PageServer
from tests.harness.browser import browser
from tests.harness.flights_lake import flights_lake
from tests.harness.page_examples import examples

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_DARK = frozenset({"history", "gates"})
_NARROW = frozenset({"runs", "compare"})
_TALLEST = 1400


def main() -> None:
    """Take a picture of each page; some dark, some also narrow."""
    with tempfile.TemporaryDirectory() as folder, graveler.init(Path(folder) / "lake") as lake:
        pages = examples(flights_lake(lake))
        with PageServer(lake) as server, browser() as tab:
            tab.go(server.address)
            tab.wait("document.querySelector('h1')", "the first page")
            for name, page in pages.items():
                for width in (1280, 400) if name in _NARROW else (1280,):
                    tab.look(width=width, height=700, dark=name in _DARK)
                    tab.go(f"http://{server.authority}{page}")
                    tab.wait("document.readyState === 'complete'", name)
                    tall = tab.run("document.documentElement.scrollHeight")
                    tab.look(width=width, height=min(tall, _TALLEST), dark=name in _DARK)
                    tab.shoot(IMAGES / f"ui-{name}{'-narrow' if width == 400 else ''}.png")
