"""The parser of the command line: its errors, and what users of git and lakectl type.

A command of theirs is answered by one line that names the verb of graveler.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from typer.core import TyperGroup

from graveler.cli.failure import DONE, USAGE, UsageError, report

_NO_FOLDER = "there is no working folder; name the branch in each command, as in `graveler ls {0}`"
_NO_REMOTE = "there is no remote: all processes share one lake; `graveler merge {0} main` publishes"
_LISTS = (["head"], ["log"], ["reflog"])
_COUNT = re.compile(r"^-([0-9]+)$")
_NUMBER = re.compile(r"[0-9]{1,18}")
_RESET = "`graveler branch reset BRANCH:PATH` discards what is staged at a path"
_LIST = "`graveler branch list` lists the branches"
_STAGED = "`graveler diff BRANCH` lists what is staged"
_HABITS = {
    "abort": "a merge with conflicts changes nothing, so there is nothing to abort",
    "add": "`graveler put {0} BRANCH:PATH` stages a file",
    "annotate": "`graveler why REF:PATH` shows the commit, the run and the step that made a file",
    "bisect": "`graveler log REF PATH` lists the commits that changed a path",
    "blame": "`graveler why REF:PATH` shows the commit, the run and the step that made a file",
    "branch": "`graveler branch create {0}` makes a branch",
    "branch -D": "`graveler branch delete {0}` deletes a branch; `graveler undo {0}` restores it",
    "branch -a": "`graveler branch list --all` lists all branches",
    "branch -d": "`graveler branch delete {0}` deletes a branch; `graveler undo {0}` restores it",
    "branch -m": "a branch keeps its name: `graveler branch create NEW {0}`, then delete the old one",
    "branch --list": _LIST,
    "branch -v": _LIST,
    "branches": _LIST,
    "checkout": _NO_FOLDER,
    "checkout -b": "`graveler branch create {0}` makes a branch",
    "clean": "`graveler branch reset BRANCH` discards what is staged",
    "clone": "`graveler get -r REF: FOLDER` copies the files of a ref into a folder",
    "commit --amend": "`graveler undo BRANCH`, then `graveler cherry-pick COMMIT BRANCH -m TEXT`, where "
    "COMMIT is the one that was undone",
    "commit -am": "`graveler commit -m TEXT` commits all that is staged",
    "commit -a": "`graveler commit -m TEXT` commits all that is staged",
    "config": "the settings are in graveler.toml; GRAVELER_COMMITTER is your name",
    "describe": "`graveler show {0}` shows a commit",
    "diff --cached": _STAGED,
    "diff --staged": _STAGED,
    "export": "`graveler get -r REF: FOLDER` copies the files of a ref into a folder",
    "fetch": _NO_REMOTE,
    "fs": "`graveler ls`, `stat`, `get`, `put` and `rm` work with files",
    "fs cat": "`graveler cat REF:PATH` writes a file to the standard output",
    "fs download": "`graveler get -r REF:FOLDER FOLDER` copies files into a folder",
    "fs ls": "`graveler ls REF:FOLDER` lists files",
    "fs rm": "`graveler rm BRANCH:PATH` removes a file",
    "fs stat": "`graveler stat REF:PATH` shows an entry",
    "fs upload": "`graveler put FILE BRANCH:PATH` stages a file",
    "grep": "`graveler ls 'REF:**/*.csv'` finds files by name; `graveler cat REF:PATH` reads them",
    "ingest-files": "`graveler import PLACE BRANCH:FOLDER` imports files without copying a byte",
    "log --all": "`graveler log REF` lists the commits of one ref, `graveler reflog` the moves of all",
    "log --stat": "`graveler show REF --stat` shows the totals of a commit",
    "log -p": "`graveler show REF` shows the changes of a commit",
    "ls-files": "`graveler ls -r REF` lists all files",
    "ls-tree": "`graveler ls -r {0}` lists all files",
    "merge --abort": "a merge with conflicts changes nothing, so there is nothing to abort",
    "pull": _NO_REMOTE,
    "push": _NO_REMOTE,
    "rebase": "`graveler merge main BRANCH` brings what is new on main to a branch",
    "remote": _NO_REMOTE,
    "rename": "`graveler mv BRANCH:OLD BRANCH:NEW` moves a file",
    "reset": "`graveler branch reset BRANCH` discards what is staged; with --hard REF the branch moves",
    "reset --soft": "`graveler undo BRANCH` moves a branch back, and names the ref that keeps the files",
    "restore": _RESET,
    "restore --source": "`graveler cp {0}:{1} BRANCH:{1}` stages a file as it is in another ref",
    "rev-parse": "`graveler show {0}` shows a commit and its whole id",
    "rollback": "`graveler run rollback KEY` reverts a published run; `graveler undo BRANCH` undoes a move",
    "shortlog": "`graveler log` lists the commits",
    "stash": "a branch keeps what is staged on it: work on another, `graveler branch create NAME`",
    "switch": _NO_FOLDER,
    "switch -c": "`graveler branch create {0}` makes a branch",
    "tag": "`graveler tag create {0}` makes a tag",
    "tag -d": "`graveler tag delete {0}` deletes a tag",
    "tag -l": "`graveler tag list` lists the tags",
    "tags": "`graveler tag list` lists the tags",
    "upload": "`graveler put -r FOLDER BRANCH:FOLDER` stages a folder",
    "whatchanged": "`graveler log REF PATH` lists the commits that changed a path",
    "worktree": _NO_FOLDER,
}


class Commands(TyperGroup):
    """All commands. An error of the parser is reported as every other error is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the verb."""
        _spare(self, ctx)
        return super().parse_args(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command, and exit with its code."""
        options["standalone_mode"] = False
        words = [*(sys.argv[1:] if args is None else args)]
        if _typed(words)[:1] in _LISTS:
            words = [_COUNT.sub(r"-n\1", word) for word in words]
        try:
            code = super().main(words, *rest, **options)
        except Exception as error:
            shown = getattr(error, "format_message", None)
            if shown is None:
                raise
            code = _misused(error, shown(), words)
        sys.exit(code or DONE)


def _spare(command: Any, context: Any) -> None:
    """Let typer convert only what is no text, number or default.

    It converts with pydantic, whose import takes a quarter of the time of a verb.
    """
    for inner in getattr(command, "commands", {}).values():
        _spare(inner, context)
    for parameter in command.get_params(context):
        if hasattr(parameter, "type_descriptor"):  # typer before 0.29 has no pydantic
            parameter.process_value = partial(_process, parameter, parameter.process_value)


def _process(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
    kind, about = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    number = kind is int and about.max is None and _NUMBER.fullmatch(str(value))
    read = int(value) if number and int(value) >= (about.min or 0) else value
    absent, plain = read in (None, ()), kind == list[str] or type(read) is kind
    if parameter.required if absent else not plain:
        return convert(context, value)
    return parameter.callback(context, parameter, read) if parameter.callback else read


def _misused(error: Any, message: str, words: list[str]) -> int:
    """Report a call that the parser does not understand, with graveler's way of a git command."""
    context = error.ctx
    if not message:  # a group without a command: the parser has shown the help
        return USAGE
    named = context.command_path.split()[1:] if context else []
    typed = _typed(words)
    guessed = "Did you mean" in message
    hint = "" if named == typed[:2] or (guessed and typed[:1] == named) else _advice(typed)
    told = hint or f"{message.rstrip('.')}; see `graveler {' '.join([*named, '--help'])}`"
    return report(
        UsageError(told.replace("?; see", "? See")), as_json="--json" in words, debug=False
    )


def _typed(words: list[str]) -> list[str]:
    """Return the words from the verb on."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-R", "--lake", "--repo") else 1
    return words[at:]


def _advice(words: Sequence[str]) -> str:
    """Return graveler's way of a command that it does not have; "" if it is no known habit."""
    words = [part for word in words for part in word.split("=", word.startswith("--"))]
    named = [word for word in words[1:] if not word.startswith("-")]
    for second in words[1:]:
        if (pair := f"{words[0]} {second}") in _HABITS:
            return _HABITS[pair].format(*(word for word in named if word != second), "NAME", "PATH")
    alone = words[:1] in (["branch"], ["tag"]) and not named
    return "" if alone or not words else _HABITS.get(words[0], "").format(*named, "NAME")
