"""Pages as HTML: the templates, and the filters by which they show values.

All values are escaped. Control characters and marks of direction are made visible, except line ends.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from graveler.display import printable, size_text
from graveler.display import title as first_line
from graveler.errors import MissingDependencyError
from graveler.gates.verdicts import Verdict
from graveler.pages.page import Page
from graveler.pages.query import address
from graveler.pages.site import ROUTES

try:
    from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
except ImportError as error:
    told = f'the pages need jinja2 ({error}): pip install "graveler[ui]"'
    raise MissingDependencyError(told) from error

_SPANS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

_SHORT, _LONGEST = 12, 300
_now: ContextVar[datetime] = ContextVar("graveler_page_now")
_NO_WORD = re.compile(r"\W")


def render(page: Page) -> str:
    """Return the HTML of a page of the site."""
    query = page.query
    if query is None:
        raise ValueError(f"the page {page.title!r} belongs to no request")
    routes = [(query.link(name), route.label, name) for name, route in ROUTES.items()]
    context: dict[str, Any] = {
        **page.values,
        "title": page.title,
        "query": query,
        "link": query.link,
        "again": query.again,
        "navigation": [item for item in routes if item[1]] if query.repository else [],
    }
    return filled(environment(), f"{page.template}.html", context, now=query.now)


def filled(templates: Environment, name: str, values: Mapping[str, Any], *, now: datetime) -> str:
    """Return a template filled with values; `now` is the time from which `ago` counts."""
    token = _now.set(now)
    try:
        return templates.get_template(name).render(values)
    finally:
        _now.reset(token)


def compile_templates() -> None:
    """Compile all templates, so that no first reader of a page waits for it."""
    for name in environment().list_templates():
        environment().get_template(name)


@cache
def style() -> str:
    """Return the style sheet."""
    return environment().get_template("style.css").render()


@cache
def environment() -> Environment:
    """Return the templates of this site."""
    return extended()


def extended(own: BaseLoader | None = None, **filters: Any) -> Environment:
    """Return the templates of these pages with others, which come first, and with more filters."""
    shared = PackageLoader("graveler.pages")
    made = Environment(
        loader=shared if own is None else ChoiceLoader([own, shared]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.globals.update(address=address)
    made.filters.update(
        about=_about,
        ago=ago,
        count=_count,
        cut=cut,
        first_line=first_line,
        moment=moment_text,
        short=_short,
        size=size_text,
        span=span_text,
        verdict_kind=_verdict_kind,
        web=_web,
        word=_word,
        **filters,
    )
    return made


def _shown(value: Any) -> Any:
    """Return what is shown of a value: text without control characters, HTML as it is."""
    if value is None:
        return ""
    if isinstance(value, str) and not hasattr(value, "__html__") and not value.isprintable():
        return "\n".join(map(printable, value.split("\n")))
    return value


def moment_text(moment: datetime | None) -> str:
    """Return a time in UTC: ``2026-01-31 14:05:09``."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def span_text(length: timedelta) -> str:
    """Return a duration in its two largest units: ``3 h 20 min``."""
    seconds = int(abs(length.total_seconds()))
    parts: list[str] = []
    for unit, worth in _SPANS:
        count, seconds = divmod(seconds, worth)
        if count:
            parts.append(f"{count} {unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 s"


def ago(moment: datetime | None) -> str:
    """Return how long ago a time was, or in how long it will be, at the time of the page."""
    if moment is None:
        return ""
    now = _now.get()
    return f"{span_text(now - moment)} ago" if moment <= now else f"in {span_text(moment - now)}"


def cut(text: str, most: int = _LONGEST) -> str:
    """Return a text that is shortened to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _about(command: str, repository: str) -> str:
    """Return a command with the repository that it is about: a lake may have several."""
    program, space, rest = command.partition(" ")
    if not repository or program != "graveler" or rest.startswith("--repo "):
        return command
    return f"{program} --repo {repository}{space}{rest}"


def _short(identifier: str) -> str:
    return identifier[:_SHORT]


def _web(text: str) -> bool:
    """Return whether a text may be a link: metadata may hold any text."""
    return text.startswith(("https://", "http://"))


def _verdict_kind(verdict: Verdict) -> str:
    """Return passed, refused, warned, or died if the gate gave no answer."""
    if verdict.passed:
        return "passed"
    return "died" if verdict.died else "refused" if verdict.refuses else "warned"


def _word(name: object) -> str:
    """Return a name as the name of a class."""
    return _NO_WORD.sub("-", str(name))


def _count(number: int, one: str = "", many: str = "") -> str:
    """Return a number, with a noun if there is one: ``1 file``, ``1,200 files``."""
    return (
        f"{number:,} {one if number == 1 else many or f'{one}s'}".rstrip() if one else f"{number:,}"
    )
