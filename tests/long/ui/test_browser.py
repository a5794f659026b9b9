"""Every page in Chromium: both widths, both schemes, without scripts, judged by axe-core."""

import json
from datetime import datetime
from pathlib import Path

import pytest

import graveler
from graveler.pages.site import ROUTES
from graveler.server.pages import PageServer
from graveler.testing.clock import FakeClock
from tests.harness.browser import browser
from tests.harness.flights_lake import flights_lake
from tests.harness.page_examples import examples

AXE = Path(__file__).parents[3] / "build" / "axe" / "package" / "axe.min.js"
"""`make test-ui` fetches it."""
LOOKS = [(width, dark) for width in (1280, 400) for dark in (False, True)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The addresses of all pages, by name, and a browser that has shown the token."""
    with graveler.init(tmp_path_factory.mktemp("lake")) as lake:
        pages = examples(flights_lake(lake))
        clock = FakeClock(datetime.fromisoformat("2100-01-01T00:00Z"))  # ages stay as they are
        with PageServer(lake, clock=clock) as server, browser() as tab:
            tab.call("Log.enable")
            _go(tab, server.address)
            yield f"http://{server.authority}", pages, tab


def _go(tab, address):
    tab.go("about:blank")
    tab.wait("location.href === 'about:blank'", "an empty page")
    tab.go(address)
    tab.wait("document.readyState === 'complete' && document.querySelector('h1')", address)


def test_every_page_has_an_example(site):
    _, pages, _ = site
    assert {page.rpartition("/")[2].partition("?")[0] for page in pages.values()} == set(ROUTES)


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_every_page_fits_and_axe_finds_nothing_serious(site, width, dark):
    base, pages, tab = site
    tab.look(width=width, height=900, dark=dark)
    tab.said.clear()
    wrong = {}
    for name, page in pages.items():
        _go(tab, base + page)
        found = _violations(tab)
        wide = tab.run("document.documentElement.scrollWidth - window.innerWidth")
        if wide > 0:
            found.append(f"{wide} pixels wider than the window")
        found += [f"{entry['level']}: {entry['text']}" for entry in tab.said]
        tab.said.clear()
        if found:
            wrong[name] = found
    assert wrong == {}


def _violations(tab):
    tab.run(AXE.read_text())
    # the promise is kept in the page, because `run` returns values that are there
    tab.run("window.judged = null; axe.run().then(found => { window.judged = found }); 0")
    tab.wait("window.judged", "axe-core")
    found = json.loads(tab.run("JSON.stringify(window.judged.violations)"))
    return [
        f"{each['impact']} {each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_every_page_is_read_without_scripts(site):
    base, pages, tab = site
    texts = []
    for disabled in (False, True):
        tab.call("Emulation.setScriptExecutionDisabled", value=disabled)
        tab.call("Page.enable")
        shown = {}
        for name, page in pages.items():
            _go(tab, base + page)
            shown[name] = tab.run("document.querySelector('main').innerText")
        texts.append(shown)
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert all(texts[0].values())
    assert texts[1] == texts[0]


def test_the_keyboard_reaches_every_link_and_field(site):
    base, pages, tab = site
    tab.look(width=1280, height=900, dark=False)
    fields = "a[href], input:not([type=hidden]), select, button, summary, [tabindex='0']"
    for name, page in pages.items():
        _go(tab, base + page)
        shown = (
            f"[...document.querySelectorAll({json.dumps(fields)})].filter(e => e.checkVisibility())"
        )
        tab.run(f"window.awaited = new Set({shown}); 0")
        # a field of a date has several stops
        for _ in range(2 * tab.run("window.awaited.size") + 20):
            for kind in ("keyDown", "keyUp"):
                tab.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key="Tab",
                    code="Tab",
                    windowsVirtualKeyCode=9,
                )
            tab.run(
                "getComputedStyle(document.activeElement).outlineStyle !== 'none' "
                "&& window.awaited.delete(document.activeElement)"
            )
        assert tab.run("[...window.awaited].map(e => e.outerHTML).join('\\n')") == "", name
