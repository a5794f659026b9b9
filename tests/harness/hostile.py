"""A publisher that talks to a gate's process that sends arbitrary bytes."""

import json
import random
import socket
from copy import deepcopy
from typing import Any

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.gates import Candidate, Gate
from graveler.gates.isolation.process import Conversation, Process
from graveler.gates.isolation.server import ReadServer
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds

ANSWER = {"passed": True, "reason": "", "died": False, "transient": False, "facts": {}, "seen": []}
STATISTICS: dict[str, Any] = {"files": 1, "bytes": 2, "rows": None, "columns": {}}
GIVEN = Gate("g", lambda _: None, prefix="s", reads={"history"}, timeout=5.0)


class Ended(Process):
    """A process that has ended."""

    def ended(self, *, wait: bool) -> int:
        return 0


def candidate_of(repo):
    branch = repo.create_branch("dev")
    branch.put("small", b"12345")
    commit = branch.commit("small")
    return Candidate(repo.stores, commit, target=repo.commit("main"), into="main")


def converse(candidate, sent):
    """Return the answer of a gate whose process sends these bytes and ends."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        return Conversation(GIVEN, Ended(), ours, ReadServer(GIVEN.view(candidate))).hold()


def framed(raw):
    return len(raw).to_bytes(4, "big") + raw


def said(message):
    return framed(json.dumps(message).encode())


QUESTIONS = [
    ["find", "candidate", b"small".hex()],
    ["scan", "candidate", b"s".hex(), b"s".hex()],
    ["scan", "target", b"s".hex(), b"s".hex()],
    ["changes", "candidate", b"s".hex()],
    ["past", "s"],
    ["next", 0],
    ["read", "candidate", "small", 0, 10],
    ["uri", "data/x"],
    ["restores"],
    ["now"],
]
ODD: list[Any] = [
    None,
    True,
    -1,
    1 << 70,
    0.5,
    "",
    "\ud800",
    "../x",
    "zz",
    "0" * 64,
    [],
    {},
    [[]],
    {"a": []},
]


def mutated(dice, message):
    """Return the bytes of a message with a change in its content or its frame."""
    for _ in range(dice.choice([0, 0, 1, 2])):
        holder, key = dice.choice(list(places(message)))
        holder[key] = deepcopy(dice.choice(ODD))
    raw = bytearray(said(message))
    for _ in range(dice.choice([0] * 10 + [1, 3])):
        raw[dice.randrange(len(raw))] = dice.randrange(256)
    if dice.random() < 0.02:
        del raw[dice.randrange(len(raw)) :]
    return bytes(raw)


def places(value):
    """Yield the places that can be changed: each container and a key of it."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def fuzz(candidate, seed, count):
    """Send altered messages to a publisher, which may only answer or refuse.

    Returns:
        The number of messages that gave a passing answer.
    """
    dice = random.Random(seed)
    passed = 0
    for _ in range(count):
        sent = [mutated(dice, {"ask": deepcopy(dice.choice(QUESTIONS))}) for _ in range(5)]
        answer = {**ANSWER, "facts": {"a": 1}, "seen": [["s", dict(STATISTICS)]]}
        last = mutated(dice, {"answer": answer})
        passed += converse(candidate, said({"begun": True}) + b"".join(sent) + last).passed
    return passed


def fuzz_channel(seed, count):
    """Run `fuzz` on a new lake."""
    config = LakeConfig("fuzz", "mem://", f"mem://channel-{seed}", cache_folder=None)
    with connect(config, clock=FakeClock(), ids=SequenceIds(), background=Inline()) as lake:
        return fuzz(candidate_of(lake.create_repository("flights")), seed, count)
