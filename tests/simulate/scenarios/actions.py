"""Programs and preparations that several scenarios share."""

from tests.simulate.scenarios.scenario import Program
from tests.simulate.schedules.client import Client

GONE = frozenset({"RefNotFoundError"})


def start(c: Client) -> None:
    """Give main a committed path and a staged path."""
    c.put("k", "old")
    c.commit()
    c.put("j", "staged")


def recut(c: Client) -> None:
    """Give main staged writes, and ranges that the current policy would end elsewhere."""
    c.put("k", "old")
    c.put("l", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old", "l": "old"})
    c.put("d", "dev", "dev")
    c.commit("dev")
    c.put("j", "staged")
    c.repository.splitting.set(max_bytes=1)


def sealed(c: Client) -> None:
    """Let a committer die after its seal, and write one of its paths again."""
    start(c)
    c.put("k", "sealed")
    c.seal()
    c.put("k", "newer")


def two_sealed(c: Client) -> None:
    sealed(c)
    c.seal()
    c.delete("j")


def branches(c: Client) -> None:
    """Give each of two branches a commit that main does not have."""
    c.put("k", "old")
    c.commit()
    for name in ("one", "two"):
        c.create_branch(name, contents={"k": "old"})
        c.put(name, name, name)
        c.commit(name)


def branches_sealed(c: Client) -> None:
    branches(c)
    c.put("j", "sealed")
    c.seal()


def dev(c: Client) -> None:
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.put("d", "staged", "dev")


def put(path: str, value: str, branch: str = "main") -> Program:
    return lambda c: c.put(path, value, branch)


def commit(c: Client) -> None:
    c.commit()


def in_turn(*programs: Program) -> Program:
    def program(c: Client) -> None:
        for each in programs:
            each(c)

    return program


def delete(path: str) -> Program:
    return lambda c: c.delete(path)


def read_k(c: Client) -> None:
    c.read("k")


def list_all(c: Client) -> None:
    c.list()


def pack(c: Client) -> None:
    c.pack()


def reset(c: Client) -> None:
    c.reset()


def reset_paths(c: Client) -> None:
    c.reset(paths=["**"])


def merge(source: str) -> Program:
    return lambda c: c.merge(source, writes={source: source})
