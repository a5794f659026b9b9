"""Histories copied to a git repository: the oracle of merge bases and merges.

Files are binary for git, so it merges them whole or not at all, as graveler does. No two paths have
similar contents, so git detects no renames; git before 2.50 always looks for renames.
"""

import subprocess
from hashlib import sha1, sha512
from typing import NamedTuple

_BINARY = "* binary\n"
_OPTIONS = ("-c", "merge.verbosity=5")
_INNER = "From inner merge:"


class Told(NamedTuple):
    """The result of one merge in git.

    Attributes:
        files: The files of the merged tree, without those in conflict.
        conflicts: The paths in conflict.
        inner: The paths at which merging the merge bases had a conflict.
    """

    files: dict[str, str]
    conflicts: set[str]
    inner: set[str]


class Git:
    """A repository of git in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.run("init", "-q", "--bare", ".")
        (folder / "info" / "attributes").write_text(_BINARY)
        self._texts = {}

    def run(self, *words, stdin="", codes=(0,)):
        done = subprocess.run(
            ["git", "-C", str(self.folder), *_OPTIONS, *words],
            input=stdin.encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode in codes, done.stderr
        return done.stdout.decode()

    def add(self, parents, at, files=None):
        """Make commits and return their ids.

        Args:
            parents: The names of a commit's parents, by its name; parents come first.
            at: The time of a commit in seconds since 1970, by its name.
            files: The files of a commit, by its name: text by path, written as one line.
        """
        lines = []
        numbers = {name: number for number, name in enumerate(parents, 1)}
        for name, number in numbers.items():
            lines += [f"reset refs/heads/b{number}", "", f"commit refs/heads/b{number}"]
            lines += [f"mark :{number}", f"committer x <x@x> {at[name]} +0000"]
            lines += [f"data {len(name)}", name]
            for place, parent in enumerate(parents[name]):
                lines.append(f"{'merge' if place else 'from'} :{numbers[parent]}")
            if parents[name]:
                lines.append("deleteall")
            for path, text in (files or {}).get(name, {}).items():
                line = sha512(f"{path} {text}".encode()).hexdigest()
                self._texts[_blob(line)] = text
                lines += [f"M 100644 inline {path}", f"data {len(line)}", line]
            lines.append("")
        self.run("fast-import", "--quiet", "--force", stdin="\n".join(lines) + "\n")
        heads = self.run("for-each-ref", "--format=%(refname:short) %(objectname)")
        found = dict(line.split() for line in heads.splitlines())
        return {name: found[f"b{number}"] for name, number in numbers.items()}

    def bases(self, ids, left, right):
        """Return the names of the best common ancestors."""
        names = {identifier: name for name, identifier in ids.items()}
        out = self.run("merge-base", "--all", ids[left], ids[right], codes=(0, 1))
        return {names[line] for line in out.split()}

    def merge(self, ids, pairs):
        """Return the results of git's merge-ort for each pair: (ours, theirs)."""
        asked = "".join(f"{ids[ours]} {ids[theirs]}\n" for ours, theirs in pairs)
        fields = iter(self.run("merge-tree", "--messages", "--stdin", stdin=asked).split("\0"))
        return [self._told(fields) for _ in pairs]

    def _told(self, fields):
        assert next(fields) in {"0", "1"}
        tree = next(fields).strip()
        conflicts, inner = set(), set()
        while path := next(fields):
            conflicts.add(path.split("\t", 1)[1])
        while count := next(fields).strip():
            paths = {next(fields) for _ in range(int(count))}
            next(fields)
            if next(fields).strip().startswith(_INNER):
                inner |= paths
        files = {}
        for line in self.run("ls-tree", "-r", tree).splitlines():
            attributes, path = line.split("\t")
            if path not in conflicts:
                files[path] = self._texts[attributes.split()[2]]
        return Told(files, conflicts, inner)


def _blob(text):
    return sha1(b"blob %d\0" % len(text) + text.encode(), usedforsecurity=False).hexdigest()
