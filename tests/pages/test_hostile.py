"""Names, messages, cells and parameters with any text are shown as text, on every page of the table."""

from html.parser import HTMLParser
from itertools import product
from urllib.parse import quote, urlencode

import pytest

from graveler.display import printable
from graveler.pages import ROUTES, Site, render
from tests.harness.pages import filled, folder_of

OPENINGS = (
    "",
    "x",
    '">',
    "'>",
    "` ",
    "</title>",
    "</a></td>",
    "--><!--",
    "]]>",
    "&quot;&gt;",
    "%22%3E",
    "{{ 7777 * 7777 }}",
    "{% raw %}",
    "\N{RIGHT-TO-LEFT OVERRIDE}",
    "\N{ZERO WIDTH NO-BREAK SPACE}",
    "\x1b[31m",
    "\r\nSet-Cookie: a=b\r\n",
    "\x7f\x85\N{LINE SEPARATOR}",
    "ñïçødé ",
    "..",
)
PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" style="color:red',
    "' autofocus onfocus='alert(1)",
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<b>'></iframe>",
    "javascript:alert(1)//",
    "<base href=//evil.example/>",
    "<form action=//evil.example><button>",
    "<style>*{display:none}</style><!--",
)
TEXTS = tuple(map("".join, product(OPENINGS, PAYLOADS)))
FORBIDDEN = {"script", "img", "iframe", "base", "style", "object", "embed", "textarea", "b0"}
ADDRESSES = ("/", "#", "data:,")
PATHS = ["/", *(f"/flights/{name}" for name in ROUTES)]


class Reader(HTMLParser):
    """Reads a page, and refuses what no template of ours has."""

    def __init__(self, html):
        super().__init__()
        self.words, self.count = [], {"h1": 0, "title": 0, "main": 0}
        self.feed(html)
        self.close()
        assert (self.count["h1"], self.count["main"]) == (1, 1)

    def handle_starttag(self, tag, attrs):
        assert tag not in FORBIDDEN, tag
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in {"style", "src", "srcdoc", "autofocus", "formaction"}, (tag, name)
            if name in {"href", "action"}:
                assert value.startswith(ADDRESSES), value
                assert not value.startswith("//"), value
            self.words.append(value or "")

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "\n".join(self.words)


def shown(text):
    """Return what a page shows of a text, up to its first line end."""
    return printable(text.strip().split("\n")[0])


@pytest.mark.parametrize("name", ["/", *ROUTES])
def test_parameters(world, lake, flights, name):
    site, names = Site(lake, clock=world.clock), ["nothing"]
    if name != "/":
        names += ROUTES[name].parameters
    for number, text in enumerate(TEXTS):
        for given in ({names[number % len(names)]: text}, dict.fromkeys(names, text)):
            page = site.answer("/" if name == "/" else f"/flights/{name}", given)
            assert page.status in {200, 400, 404}, (text, given, page.values)
            assert "60481729" not in Reader(render(page)).text


@pytest.mark.parametrize("text", TEXTS[::4])
def test_names_messages_and_reasons(world, lake, text):
    filled(lake.create_repository("flights"), text)
    site, seen = Site(lake, clock=world.clock), ""
    for path in PATHS:
        for at in ("", "main", "main~1", "dev", f"{text} 1"):
            page = site.answer(
                path, {"at": at, "key": f"{text} 1", "path": f"out/{folder_of(text)}", "q": text}
            )
            assert page.status in {200, 400, 404}, (path, at, page.values)
            seen += Reader(render(page)).text
    assert shown(text) in seen
    assert printable(f"{text} 1") in seen or "\n" in text


@pytest.mark.parametrize("text", TEXTS[::8])
def test_requests(client, flights, text):
    for path in PATHS:
        query = urlencode({"q": text, "at": text, text: text})
        answer = client.get(f"{path}?{query}")
        assert answer.status in {200, 400, 404}
        assert "a" not in answer.headers.get("set-cookie", "")
        Reader(answer.text)
    for path in (f"/{quote(text)}", f"/flights/{quote(text)}", f"/{quote(text)}/history"):
        answer = client.get(path)
        assert answer.status in {400, 404}
        assert shown(text.partition("/")[0]) in Reader(answer.text).text


@pytest.mark.parametrize(
    "target",
    [
        "/flights?at=%ff",
        "/flights?at=%zz",
        "/%ff",
        "/%zz",
        "/flights/%00",
        "/flights?at=a&at=b",
        f"/flights?{'&'.join(f'a{n}=1' for n in range(100))}",
        f"/flights/search?q={'a' * 5000}",
        "/flights/history?limit=99999999999999999999",
        "/flights/history?since=yesterday",
    ],
)
def test_odd_requests_are_pages_too(client, flights, target):
    answer = client.get(target)
    assert answer.status in {200, 400, 404}
    Reader(answer.text)
