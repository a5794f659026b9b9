"""Histories of an ingestion, in the words of `tests.runs.histories` and in words of its own.

========================  ==========================================================
``in p=1 -q``             the ingestion branch gets p, and q is deleted there; staged
``tick 5``                at 05:00; ``tick 5 HELD p``: the answer is HELD, and p is set aside
``hour 5 HELD p``         what is known of the hour; ``?`` is any state
``as quarantine``         the policy: hold (the default), quarantine, target or ingest
``gates none``            the gates: bad (the default: no bad file), none, no (refuses all), or two
                          (at most two files)
``commit 5``              a user commits on the ingestion branch for 05:00
``release source-wins``   the first quarantine; ``force`` without gates
``mend -p``               a user writes on its branch; ``give-up`` deletes it
``shelf p=1 -q``          its branch has p and not q
``shelves 5 7``           the quarantines are of these hours; ``5+6`` is of two
``has p=1``               main has p and perhaps others
``mark it``               labels the head of main
``rewind``                the last commit of the ingestion branch is reset away
``idle``                  nothing is held and nothing waits
``collect``               keeps one commit, and the repository is sound
``restored``              a dump of the references is restored
``again``                 a new process with empty caches
========================  ==========================================================
"""

from graveler.gates import gate
from graveler.kv.drivers.memory import MemoryKVStore
from tests.runs.histories import History, given, writes


@gate
def nothing_bad(candidate):
    """Refuses new files that are bad."""
    new = (*candidate.added(), *candidate.changed())
    return not any(candidate.get(entry.path) == b"bad" for entry in new)


@gate
def nothing(candidate):
    """Refuses everything."""
    return False


FIVE, SIX, SEVEN = (f"2013-01-01T{number:02}:00Z" for number in (5, 6, 7))
GATES = {
    "bad": [nothing_bad],
    "none": [],
    "no": [nothing],
    "two": [gate("two")(lambda candidate: len(list(candidate.entries())) <= 3)],
}


def hour(text):
    number, _, minute = text.partition(":")
    return f"2013-01-01T{int(number):02}:{minute or '00'}Z"


class Ingesting(History):
    """The story of a repository and its ingestion."""

    def __init__(self, repo, world=None, folder=None):
        super().__init__(repo)
        self.world, self.folder = world, folder
        self.policy, self.gates = {}, "bad"

    @property
    def ingestion(self):
        return self.repo.ingestion(gates=GATES[self.gates], **self.policy)

    @property
    def shelf(self):
        return self.repo.branch(self.ingestion.quarantined()[0].name)

    def do_in(self, *words):
        self.put(self.ingestion.branch, words)

    def do_commit(self, at):
        self.ingestion.branch.commit("by hand", metadata={"hour": hour(at)})

    def do_tick(self, at, *told):
        tick = self.ingestion.tick(hour(at))
        check(tick, *told)
        return tick

    def do_hour(self, at, *told):
        check(self.ingestion.hour(hour(at)), *told)

    def do_as(self, policy):
        kind = "on_refusal" if policy in ("hold", "quarantine") else "on_conflict"
        self.policy = {**self.policy, kind: policy}

    def do_gates(self, name):
        self.gates = name

    def do_release(self, *strategy):
        return self.ingestion.release(self.shelf.name, **given(strategy))

    def do_force(self, *strategy):
        return self.ingestion.release(self.shelf.name, gates=[], **given(strategy))

    def do_mend(self, *words):
        self.put(self.shelf, words)

    def do_give_up(self):
        self.repo.delete_branch(self.shelf.name)

    def do_rewind(self):
        self.repo.branch("ingest").reset("ingest~1")

    def do_idle(self):
        assert (self.ingestion.status().held, self.ingestion.pending()) == (None, ())

    def do_shelf(self, *words):
        for path, text in writes(words):
            assert (self.shelf.get(path).decode() if self.shelf.exists(path) else None) == text

    def do_shelves(self, *hours):
        kept = self.ingestion.quarantined()
        assert [one.hours for one in kept] == [tuple(map(hour, at.split("+"))) for at in hours]

    def do_has(self, *words):
        for path, text in writes(words):
            assert self.repo.ref("main").get(path).decode() == text

    def do_mark(self, label):
        self.made[label] = self.repo.commit("main")

    def do_collect(self):
        self.repo.gc.keep(count=1)
        self.repo.gc.run(grace="0s", window="0s")
        assert self.repo.fsck(objects="checksum").sound

    def do_again(self):
        self.repo = self.world.repo(scripted=False)

    def do_restored(self):
        self.repo.dump_refs(self.folder / "refs")
        self.world.kv = MemoryKVStore()
        lake = self.world.lake(scripted=False)
        lake.restore_repository(self.folder / "refs", take_over=True)
        self.do_again()


def check(answer, state="", *set_aside):
    if state:
        assert state in ("?", answer.state.name)
        assert answer.set_aside == tuple(path for path, _ in writes(set_aside))
