"""Histories of publishes, told in lines: ``A p=1; branch dev; B@dev -p; merge dev; main p=1``.

========================  ==========================================================
``A p=1 -q``              run A publishes: step "work" writes p and deletes q
``A@dev p=1``             into another branch than main
``work A/one p=1``        an open attempt of run A does a step; ``A/direct`` commits without one
``begin x A/one``         opens a try x of a step; ``write x p=1`` and ``join x`` continue it
``land A``                that attempt is published; ``park A`` parks it, and the next work resumes
``drop A/one``            its step is undone
``user p=1``              a user commits on main; ``user@dev`` on dev
``merge dev``             into main; ``merge main>dev source-wins`` with a strategy
``pick it>dev``           a commit that was labelled ``it: A p=1``
``revert it``             on main, like ``undo`` and ``reset it``
``rollback A``            a run, or a labelled publish of it
``main p=1``              the files of main are exactly these; ``dev p=1`` those of dev, ``of A p=1``
                          those of an open attempt
``abandon A``             that attempt is given up
``lost A one``            of the steps that were done, exactly these are lost to the run
``state A PARKED``        the state of run A
``already``               the last publish or rollback made no commit; ``same it``: it made the
                          commit ``it``
========================  ==========================================================

A refusal stands behind ``!``: ``rollback A ! MergeConflictError 'p' by run 'B'``. The path
``log1`` is version 1 of the log of the Delta table ``t/``.
"""

from typing import Any

import pytest

from graveler import errors
from tests.harness.operations.claims import files


class History:
    """The story of a repository.

    Attributes:
        made: Commits by label.
        steps: The commit of the last join of each step, by run.
        open: Attempts by key.
        tries: Tries of steps by name.
        last: What the last action returned.
    """

    def __init__(self, repo):
        self.repo, self.made, self.steps, self.open = repo, {}, {}, {}
        self.last: Any = None
        self.tries = {}
        repo.protection.remove("main")

    def play(self, told):
        for line in filter(None, map(str.strip, told.split(";"))):
            action, _, refusal = line.partition(" ! ")
            label, _, action = action.rpartition(": ")
            try:
                if refusal:
                    name, _, text = refusal.partition(" ")
                    with pytest.raises(getattr(errors, name), match=text or None):
                        self.act(*action.split())
                else:
                    self.act(*action.split())
            except BaseException as error:
                error.add_note(f"at {line!r}")
                raise
            if label:
                self.made[label] = getattr(self.last, "commit", self.last)
        return self

    def act(self, verb, *words):
        """Do or check one thing."""
        named = getattr(self, f"do_{verb.replace('-', '_')}", None)
        if named:
            self.last = named(*words) or self.last
        elif verb in {branch.name for branch in self.repo.branches()}:
            assert files(self.repo, verb) == dict(writes(words))
        elif verb.startswith("user"):
            branch = self.repo.branch(verb.partition("@")[2] or "main")
            self.put(branch, words)
            self.last = branch.commit("by hand")
        else:
            self.do_work(verb, *words)
            self.last = self.do_land(verb.partition("@")[0])

    def put(self, view, words):
        for path, text in writes(words):
            if text is None:
                view.delete(path)
            else:
                view.put(path, text.encode())

    def do_work(self, who, *words):
        who, _, into = who.partition("@")
        key, _, step = who.partition("/")
        run = self.attempt(key, into or "main")
        if step == "direct":
            self.put(run, words)
            run.commit("direct")
        elif step or words:
            with run.step(step or "work") as work:
                self.put(work, words)
            if work.result:
                self.steps.setdefault(key, {})[work.step] = work.result.id

    def attempt(self, key, into="main"):
        if key not in self.open:
            self.open[key] = self.repo.runs.open(key, into=into)
        return self.open[key]

    def do_land(self, key, *strategy):
        run = self.attempt(key.partition("/")[0])
        del self.open[run.key]
        return run.publish(**given(strategy))

    def do_park(self, key):
        self.open.pop(key).park()

    def do_abandon(self, key):
        self.open.pop(key).abandon()

    def do_lost(self, key, *steps):
        assert self.attempt(key).lost_steps(self.steps[key]) == steps

    def do_begin(self, name, who):
        key, _, step = who.partition("/")
        self.tries[name] = self.attempt(key).step(step)

    def do_write(self, name, *words):
        self.put(self.tries[name], words)

    def do_join(self, name):
        self.tries[name].join()

    def do_drop(self, who):
        key, _, step = who.partition("/")
        self.open[key].undo_step(step)

    def do_branch(self, name):
        self.repo.create_branch(name, source="main")

    def do_delete(self, name):
        self.repo.delete_branch(name)

    def do_merge(self, names, *strategy):
        source, _, into = names.partition(">")
        return self.repo.merge(source, into=into or "main", **given(strategy))

    def do_pick(self, names, *strategy):
        label, _, onto = names.partition(">")
        commit = self.made[label]
        return self.repo.cherry_pick(commit, onto or "main", **parent(commit), **given(strategy))

    def do_revert(self, label):
        commit = self.made[label]
        return self.repo.revert(commit, **parent(commit))

    def do_undo(self, name="main"):
        self.repo.undo(name)

    def do_reset(self, label):
        self.repo.branch("main").reset(self.made[label].id if label in self.made else label)

    def do_rollback(self, what):
        what, _, into = what.partition(">")
        target = self.made[what].id if what in self.made else what
        return self.repo.runs.rollback(target, **({"into": into} if into else {}))

    def do_of(self, key, *words):
        view = self.open[key]
        found = {entry.path: view.get(entry.path).decode() for entry in view.list()}
        assert found.items() - {("settled", "0")} == dict(writes(words)).items()

    def do_state(self, key, state):
        assert self.repo.runs.get(key).state == state

    def do_already(self):
        assert self.last.already

    def do_same(self, label):
        assert self.last.commit == self.made[label]


def writes(words):
    """Yield paths and texts; the text is None for a path that is deleted."""
    for word in words:
        path, written, text = word.partition("=")
        path = path if written else path.removeprefix("-")
        if path.startswith("log"):
            path = f"t/_delta_log/{int(path[3:]):020}.json"
        yield path, text if written else None


def parent(commit):
    return {"parent": 1} if len(commit.parents) > 1 else {}


def given(strategy):
    return {"strategy": strategy[0]} if strategy else {}
