"""Pages of one repository, as a reader without scripts sees them."""

from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

import pytest

from graveler.pages import Page, Site, render

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Parsed(HTMLParser):
    """The links, the tables and the text of a page; it refuses what is not well-formed."""

    def __init__(self, html):
        super().__init__()
        self.links, self.tags, self.words, self.tables = [], [], [], []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert tag not in {"script", "style", "iframe", "object"}, tag
        assert not [name for name in given if name == "style" or name.startswith("on")], attrs
        self.tags.append((tag, given))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


@dataclass(frozen=True)
class Seen:
    """A page, its HTML, its words, its links and the texts of its tables."""

    page: Page
    html: str
    parsed: Parsed

    @property
    def status(self):
        return self.page.status

    @property
    def text(self):
        return " ".join("".join(self.parsed.words).split())

    @property
    def values(self):
        return self.page.values

    def rows(self, number=0):
        """Return the texts of the rows of a table, without its head."""
        return [[" ".join(cell.split()) for cell in row] for row in self.parsed.tables[number][1:]]

    def links(self, *pages, past=False):
        """Return the links to pages of the repository, except those to what a branch was."""
        places = {f"/flights/{name}" for name in pages}
        found = [link for link in self.parsed.links if urlsplit(link).path in places]
        return [link for link in found if past == ("%40%7B" in link)]


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


@pytest.fixture
def main(repo):
    return repo.branch("main")


@pytest.fixture
def look(lake, world, repo):
    """Return a page by its name and parameters, or by a link."""
    site = Site(lake, clock=world.clock)

    def look(page, **parameters):
        parts = urlsplit(page if page.startswith("/") else f"/flights/{page}")
        page = site.answer(parts.path, dict(parse_qsl(parts.query), **parameters))
        html = render(page)
        return Seen(page, html, Parsed(html))

    return look
