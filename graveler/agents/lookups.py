"""What a session of an agent reads: every answer is bounded, and changes nothing."""

from codecs import utf_8_decode
from collections import Counter
from itertools import islice, tee
from typing import Annotated, Any, Literal

from pydantic import Field

from graveler.agents.answers import MOST_ITEMS, page
from graveler.agents.query import run_query
from graveler.agents.session import AgentSession, PathOf, Text
from graveler.frames.first_rows import form_of, plain_value, rows_of
from graveler.frames.footers import reading
from graveler.lake import Lake
from graveler.lake.shapes import shape_of
from graveler.reads.view import View

_MOST_COUNTED = 100_000
_STAGED = 100
_TEXT_BYTES = 50_000

RefOf = Annotated[str, Field(max_length=300)]
Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS)]


class Lookups:
    """What a session reads. The public methods are tools."""

    def __init__(self, lake: Lake, session: AgentSession) -> None:
        self._lake = lake
        self._session = session
        self._repository = session.repository

    def _view(self, ref: str) -> View:
        return self._repository.view(ref or self._session.ref)

    def status(self) -> dict[str, Any]:
        """Show the session: its branch and what is staged there, and where and whether it may publish.

        `gates` are the gates that branches require, by pattern. The branch is made by the first write.
        """
        session, repository = self._session, self._repository
        staged = repository.branch(session.name).uncommitted() if session.began else ()
        return {
            "repository": repository.name,
            "base": session.base,
            "branch": session.name if session.began else None,
            "head": shape_of(repository.commit(session.ref)),
            "staged": page(staged, _STAGED, lambda change: change.path, lambda change: change.path),
            "into": session.into,
            "may_publish": session.may_publish,
            "gates": {at: shape_of(gates) for at, gates in repository.gates.settings().items()},
        }

    def repositories(self, after: RefOf = "", limit: Limit = 100) -> dict[str, Any]:
        """List the repositories of the lake; this session works on one of them."""
        names = (name for name in self._lake.repositories() if name > after)
        return {"session": self._repository.name, **page(names, limit, str)}

    def refs(
        self, kind: Literal["branches", "tags"] = "branches", after: RefOf = "", limit: Limit = 100
    ) -> dict[str, Any]:
        """List the branches or the tags after a name, with their commits.

        A ref of other tools is one of these, a commit id, or main~2, main@{1}, main@{2013-01-01T05:00Z}.
        """
        if kind == "branches":
            return page(self._repository.branches(after=after), limit, lambda branch: branch.name)
        tags = (tag for tag in self._repository.tags.list().items() if tag[0] > after)
        return page(tags, limit, lambda tag: tag[0], lambda tag: {"name": tag[0], "commit": tag[1]})

    def list(
        self, path: PathOf = "", ref: RefOf = "", after: PathOf = "", limit: Limit = 100
    ) -> dict[str, Any]:
        """List the files and folders below a folder, which ends with /. Continue with after=next."""
        found = self._view(ref).list(path, after=after, delimiter="/")
        return page(found, limit, lambda item: item.path)

    def read(
        self,
        path: PathOf,
        ref: RefOf = "",
        rows: Limit = 20,
        start: Annotated[int, Field(ge=0, le=1 << 60)] = 0,
    ) -> dict[str, Any]:
        """Read the first rows of a Parquet, CSV, JSON lines or Arrow file, or the text of another file.

        Text begins at byte `start`, and `next` is where the next part begins. Use query for other rows.
        """
        view = self._view(ref)
        entry = view.stat(path)
        answer = {"file": shape_of(entry)}
        if form := form_of(entry):
            with view.open(entry) as stream, reading(entry, form):
                return {**answer, "rows": page(rows_of(entry, stream), rows, shape=plain_value)}
        part = view.read_range(entry, start, _TEXT_BYTES)
        is_last = start + len(part) >= entry.size
        text, used = utf_8_decode(part, "backslashreplace", is_last)
        return {**answer, "text": text, "next": None if is_last else start + used}

    def compare(
        self, left: RefOf, right: RefOf, path: PathOf = "", after: PathOf = "", limit: Limit = 100
    ) -> dict[str, Any]:
        """Compare two refs below a path: how many files differ, and which.

        `totals` counts the changes after `after`, up to 100,000 of them.
        """
        found = self._repository.diff(left, right, prefix=path)
        later = (change for change in found if change.path > after)
        shown, counted = tee(islice(later, _MOST_COUNTED))
        first = page(shown, limit, lambda change: change.path)
        return {**first, "totals": Counter(change.kind for change in counted)}

    def history(self, ref: RefOf = "", path: PathOf = "", limit: Limit = 20) -> dict[str, Any]:
        """List the commits of a ref, or only those that changed a path, the newest first."""
        return page(self._repository.log(ref or self._session.ref, path=path), limit)

    def why(self, path: PathOf, ref: RefOf = "") -> dict[str, Any]:
        """Show who made a file: its commit, run, step, gates and inputs."""
        return {"why": shape_of(self._repository.why(path, ref or self._session.ref))}

    def runs(
        self, state: RefOf = "", key: Text = "", after: Text = "", limit: Limit = 20
    ) -> dict[str, Any]:
        """List the runs, the latest opened first, of a state if it is given, or show the run of a key.

        A refused run is PARKED; `reason`, `refusals` and `verdicts` say why, metadata has its hour.
        """
        runs = self._repository.runs
        if key:
            return {"run": shape_of(runs.get(key))}
        return page(
            runs.list(state.upper() or None, after=after or None), limit, lambda run: run.key
        )

    def verdicts(self, refused: bool = False, limit: Limit = 20) -> dict[str, Any]:
        """List what gates said of candidates, the latest first; refused=true: only refusals."""
        found = islice(self._repository.gates.judgements(), MOST_ITEMS)
        wanted = (judgement for judgement in found if judgement.refused or not refused)
        return page(wanted, limit)

    def query(
        self,
        sql: Annotated[str, Field(min_length=1, max_length=20_000)],
        ref: RefOf = "",
        limit: Limit = 100,
    ) -> dict[str, Any]:
        """Run one SELECT of DuckDB over committed tables, each named by its path in quotes.

        As in: select carrier, count(*) from 'output/flights/' group by 1. It reaches nothing but these
        tables. What is staged and not committed is not read.
        """
        commit = self._repository.ref(ref or self._session.ref).commit
        return run_query(self._repository.stores, commit, sql, limit)
