"""A ref or branch of another repository is refused, also if a branch of the same name exists."""

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from graveler.errors import InvalidInputError
from graveler.ingest import Ingestion
from graveler.lake import Repository
from graveler.lake.gates import Gates
from graveler.lake.places import Tags
from graveler.repository.branch import Branch
from graveler.runs.run import Run
from graveler.runs.runs import Runs
from graveler.spark.tables import Tables
from graveler.testing import World

OTHERS: dict[str, Any] = {
    "tables": {},
    "source": "dev",
    "into": "main",
    "left": "main",
    "right": "dev",
    "commit": "dev",
}
TERMS = ["repository.run", "runs.open", "runs.open_or_attach"]
FACES = {
    "repository": Repository,
    "tags": Tags,
    "gates": Gates,
    "branch": Branch,
    "runs": Runs,
    "run": Run,
    "ingestion": Ingestion,
    "tables": Tables,
}


def takers():
    """Yield every public call with each argument that can be a ref or a branch."""
    for face, kind in FACES.items():
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            for argument, parameter in inspect.signature(method).parameters.items():
                if name[0] != "_" and "Like" in str(parameter.annotation):
                    yield f"{face}.{name}", argument
    for call in TERMS:
        yield call, "into"


@pytest.fixture
def lake():
    with World().open() as lake:
        for name in ("here", "there"):
            repo = lake.create_repository(name)
            for branch in (repo.branch("main"), repo.create_branch("dev")):
                branch.put(f"{branch.name}/{name}", b"1")
                branch.commit(name)
        yield lake


def called(repo, call: str, **given: Any) -> None:
    face, _, name = call.partition(".")
    faces = {
        "repository": lambda: repo,
        "branch": lambda: repo.branch("main"),
        "run": lambda: repo.runs.open("hour"),
        "ingestion": repo.ingestion,
        "tables": lambda: Tables(repo, object()),  # type: ignore[arg-type]  # no Spark is reached
    }
    method = getattr(faces[face]() if face in faces else getattr(repo, face), name)
    for needed in inspect.signature(method).parameters.values():
        if needed.default is needed.empty and needed.kind in (
            needed.POSITIONAL_OR_KEYWORD,
            needed.KEYWORD_ONLY,
        ):
            given.setdefault(needed.name, OTHERS.get(needed.name, "text"))
    result = method(**given)
    if isinstance(result, AbstractContextManager):
        with result:
            pass
    elif isinstance(result, Iterator):
        next(result, None)


@pytest.mark.parametrize(("call", "argument"), list(takers()))
def test_a_branch_of_another_repository_is_refused(lake, call, argument):
    other = lake.repository("there").branch("dev")
    with pytest.raises(InvalidInputError, match=r"of repository '?there"):
        called(lake.repository("here"), call, **{argument: other})


def test_every_call_that_takes_a_ref_is_known():
    known = {call for call, _ in takers()}
    assert {"repository.merge", "branch.copy", "tags.create", "tables.read", "run.view"} <= known
    assert len(known) > 40
