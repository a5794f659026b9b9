"""The pages about a lake, for browsers on this machine.

A browser shows its token once, in the address, and keeps it as a cookie that scripts do not see and
other sites cannot send. Requests that another site causes are refused.
"""

from ipaddress import ip_address
from socket import getfqdn, gethostname
from urllib.parse import quote, urlencode, urlsplit

from graveler.base.clock import Clock
from graveler.errors import GravelerError
from graveler.iam.access import Identity
from graveler.lake import Lake
from graveler.pages.page import Page
from graveler.pages.rendering import compile_templates, render, style
from graveler.pages.site import Site, failure
from graveler.server.application import Application
from graveler.server.messages import Answer, HttpError, Request
from graveler.server.server import LOCALHOST, Service, chosen_token, is_loopback
from graveler.server.tokens import TokenCheck

_STYLE = "/-/style.css"
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FOREIGN = frozenset({"cross-site", "same-site"})


class WebPages:
    """The surface of the pages.

    Args:
        host: The address at which the server listens.
    """

    prefix = ""
    grants: tuple[str, ...] = ()
    methods = frozenset({"GET", "HEAD"})

    def __init__(self, lake: Lake, host: str, *, clock: Clock | None = None) -> None:
        self._site = Site(lake, clock=clock)
        self._access = lake.iam.access
        self._host = host.lower()
        self._names = set() if is_loopback(host) else {gethostname().lower(), getfqdn().lower()}

    def accept(self, request: Request) -> None:
        """Refuse what is not a reader's own request: other methods, hosts and sites."""
        if request.method not in self.methods:
            raise HttpError(405, f"{request.method}: pages are read with GET and HEAD")
        name = urlsplit(f"//{request.headers['host']}").hostname or ""
        if not self._is_own(name):
            raise HttpError(403, f"Host: {name!r} is not this server: open the address it printed")
        origin = request.headers.get("origin", "")
        foreign = request.headers.get("sec-fetch-site", "") in _FOREIGN
        if foreign or (origin and origin.partition("://")[2] != request.headers["host"]):
            raise HttpError(
                403, "another site led here: paste the address into the browser's address field"
            )

    def _is_own(self, name: str) -> bool:
        """Return whether a host is this server; the name of another site can lead here, too."""
        if name == self._host or is_loopback(name):
            return True
        if is_loopback(self._host):
            return False
        try:
            return bool(ip_address(name))
        except ValueError:
            return name in self._names

    def identify(self, request: Request, check: TokenCheck) -> Identity | None:
        """Return who sends a request, by the token in its address, in its cookie or in a header."""
        token = request.query.get("token", "") or _cookies(request).get(_cookie_name(request), "")
        shown = f"Bearer {token}" if token else request.headers.get("authorization", "")
        return check.identify({}, shown)

    def answer(self, request: Request) -> Answer:
        """Return a page, the style sheet, or the clean address of a page."""
        path = request.target.partition("?")[0]
        if request.query.get("token"):
            return _clean(request)
        if path == _STYLE:
            return _answer(style(), kind="text/css")
        page = self._site.answer(
            request.path,
            request.query,
            lambda repository: self._access.check(request.identity, "read", repository),
        )
        return _shown(page)

    def failure(self, error: HttpError | GravelerError) -> Answer:
        """Return the page of a request that failed."""
        status = error.status if isinstance(error, HttpError) else 0
        if status == 401:
            error = HttpError(
                401, "give the token that `graveler ui` printed, or one of `graveler token create`"
            )
        answer = _shown(self._site.about(failure(error, status)))
        return answer if status != 405 else _with(answer, Allow="GET, HEAD")


class PageServer(Service):
    """The pages of a lake, served while the server is open; it does not close the lake.

    Args:
        lake: The lake.
        host: Address to listen at; an address that other machines reach needs a token.
        port: Port; 0 for a free one.
        token: The token that opens the pages while the lake has no users; "" for a new one.

    Attributes:
        token: That token.

    Raises:
        InvalidInputError: The token cannot be sent, other machines reach the host and no token is
            given, or the server cannot listen at the address.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        host: str = LOCALHOST,
        port: int = 0,
        token: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._access = lake.iam.access
        self.token = chosen_token(token, host, self._access)
        check = TokenCheck(self.token, self._access)
        compile_templates()
        super().__init__(Application(check, [WebPages(lake, host, clock=clock)]), host, port)

    @property
    def address(self) -> str:
        """The address to open, ``http://host:port/?token=…``; without a token if the lake has users."""
        token = "" if self._access.has_users() else f"?{urlencode({'token': self.token})}"
        return f"http://{self.authority}/{token}"


def _cookie_name(request: Request) -> str:
    """Return the name of the cookie; browsers do not keep the cookies of two ports apart."""
    return f"graveler-{urlsplit('//' + request.headers['host']).port or 80}"


def _cookies(request: Request) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in request.headers.get("cookie", "").split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _clean(request: Request) -> Answer:
    """Return the answer that keeps the token as a cookie and leads to the address without it."""
    rest = {name: value for name, value in request.query.items() if name != "token"}
    path = quote("/" + request.path.lstrip("/\\"))  # two slashes would begin the name of a host
    secure = "; Secure" if request.address.startswith("https:") else ""
    cookie = f"{_cookie_name(request)}={request.query['token']}; Path=/; HttpOnly; SameSite=Strict"
    headers = {
        **_HEADERS,
        "Location": f"{path}?{urlencode(rest)}" if rest else path,
        "Set-Cookie": cookie + secure,
    }
    return Answer(303, headers=headers)


def _shown(page: Page) -> Answer:
    return _answer(render(page), page.status)


def _answer(text: str, status: int = 200, kind: str = "text/html") -> Answer:
    headers = {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}
    return Answer(status, text.encode(), headers)


def _with(answer: Answer, **headers: str) -> Answer:
    return Answer(answer.status, answer.content, {**answer.headers, **headers})
