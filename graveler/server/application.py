"""The application: it finds the surface of a request, checks who asks, and reports errors."""

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus

from graveler.display import printable
from graveler.errors import CorruptionError, GravelerError
from graveler.server.messages import Answer, HttpError, Request, Surface, refuse_web_pages
from graveler.server.tokens import TokenCheck

_log = logging.getLogger(__name__)
_FORM_BYTES = 4096


class Application:
    """Answers requests by the first surface whose prefix they have."""

    def __init__(self, check: TokenCheck, surfaces: Sequence[Surface]) -> None:
        self._check = check
        self._surfaces = surfaces
        self._grants = {path for surface in surfaces for path in surface.grants}

    def answer(self, request: Request, admit: Callable[[], None]) -> Answer:
        """Return the answer to a request; call `admit` when the client has shown the token."""
        path = request.target.partition("?")[0]
        surface = next(
            (each for each in self._surfaces if f"{path}/".startswith(f"{each.prefix}/")), None
        )
        failure = refusal if surface is None else surface.failure
        try:
            return self._answer(request, surface, admit)
        except (HttpError, GravelerError) as error:
            if isinstance(error, CorruptionError):
                report(error)
            return failure(error)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the top level of a request
            _log.exception("a request failed")
            return failure(HttpError(500, f"{type(error).__name__} in the server: {error}"))

    def _answer(
        self, request: Request, surface: Surface | None, admit: Callable[[], None]
    ) -> Answer:
        path = request.target.partition("?")[0]
        if request.method == "POST" and path in self._grants:
            refuse_web_pages(request)
            return self._grant(request, admit)
        if surface is None:
            refuse_web_pages(request)
            known = ", ".join(each.prefix for each in self._surfaces)
            raise HttpError(404, f"the path does not begin with {known}")
        surface.accept(request)
        if request.method not in surface.methods:
            raise HttpError(501, f"Unsupported method ({request.method!r})")
        identity = surface.identify(request, self._check)
        if identity is None:
            raise _unknown()
        admit()
        return surface.answer(replace(request, identity=identity))

    def _grant(self, request: Request, admit: Callable[[], None]) -> Answer:
        form = b""
        while request.body and (piece := request.body.read(_FORM_BYTES)):
            form += piece
            if len(form) > _FORM_BYTES:
                form = b""
                break
        granted = self._check.grant(form)
        if "error" in granted:
            return Answer.json(granted, HTTPStatus.UNAUTHORIZED)
        admit()
        return Answer.json(granted)


def refusal(error: HttpError | GravelerError) -> Answer:
    """Return the answer to a request that belongs to no surface."""
    status = error.status if isinstance(error, HttpError) else HTTPStatus.INTERNAL_SERVER_ERROR
    return Answer.json({"error": str(error)}, status)


def report(error: Exception) -> None:
    """Write an error to the standard error stream; an address is not written, it has the token."""
    sys.stderr.write(printable(f"graveler server: {error}") + "\n")


def _unknown() -> HttpError:
    return HttpError(
        401,
        "the token is missing, wrong, revoked or expired: give it as Authorization: Bearer, or, from a "
        "client of Hadoop, as the user's name (HADOOP_USER_NAME, user.name=)",
    )
