"""Text of users on the pages of pipelines is text: the page has the same elements whatever it says."""

from contextlib import suppress
from html.parser import HTMLParser

import pytest

from graveler.errors import GateFailedError
from graveler.gates import Gate
from graveler.pages import Site, render
from graveler.testing import World

HOSTILE = [
    "<script>alert(1)</script>",
    "</td></table><h1>forged",
    "\"' onmouseover='alert(1)' x=\"",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#x3c;",
    "\u202eevil\u202c\u2066",
    "\x1b[31mred\x07\x9b",
    "a\tb\rc",
    "%3Cscript%3E?x=1&y=2#z",
    "../../..%2f",
    "<!-- <style> -->",
    "]]><svg onload=alert(1)>",
    "\u0130\ufdfd\U0001f9e8\u0301" * 8,
    "javascript:alert(1)",
    "W" * 55,
]


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and what of their values matters."""

    def __init__(self):
        super().__init__()
        self.found, self.links, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, tuple(sorted(name for name, _ in attrs))))
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data):
        self.text += data


def pages(text):
    """Return the pages of a repository in which everything that may have any text has this one."""
    world = World()
    with world.open() as lake:
        repo = lake.create_repository("flights")
        key = f"{text} 2026-01-01T04:00Z"

        def refuse(candidate):
            candidate.report(**{text: text, "n": 1})
            return f"no: {text}"

        gate = Gate(text, refuse)
        with suppress(GateFailedError):
            with repo.run(key, gates=[gate], metadata={text: text, "url": text}) as run:
                with run.step(text) as step:
                    step.put("out/x", b"1")
                run.view().list()
        parked = repo.runs.open(f"{text} 2026-01-01T05:00Z", metadata={"hour": text})
        parked.park(text)
        ingestion = repo.ingestion(gates=[gate])
        folder = text.replace("/", "|").replace("..", "__")
        ingestion.branch.put(f"{folder}/2026/01/01/06:00/{folder}", b"1")
        ingestion.tick("2026-01-01T06:00Z")
        ingestion.branch.put(f"{folder}/2026/01/01/07:00/{folder}", b"1")
        repo.branch("main").put(f"{folder}/2026/01/01/08:00/x", b"1")
        repo.branch("main").commit(text)
        site = Site(lake, clock=world.clock)
        asked = {
            "runs": {"folder": folder, "text": text},
            "run": {"key": key},
            "gates": {"gate": text, "into": text},
            "ingestion": {},
            "storage": {},
        }
        for name, parameters in asked.items():
            for given in ({}, parameters) if name != "run" else (parameters,):
                found = site.answer(f"/flights/{name}", given)
                assert found.status == 200, (name, found.values)
                yield name, render(found)


def elements(text):
    for name, html in pages(text):
        parsed = Elements()
        parsed.feed(html)
        yield name, parsed


@pytest.fixture(scope="module")
def plain():
    return [(name, parsed.found) for name, parsed in elements("plain")]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_makes_no_element_and_no_attribute(plain, text):
    for (name, expected), (_, parsed) in zip(plain, elements(text), strict=True):
        ways = ("p", "code", "span")  # a key that cannot be typed has no command
        kept, wanted = (
            [one for one in each if one[0] not in ways] for each in (parsed.found, expected)
        )
        assert kept == wanted, name
        assert all(link.startswith(("/", "#", "data:,")) for link in parsed.links)
        assert parsed.text.replace("\n", "").isprintable()
