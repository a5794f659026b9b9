"""``graveler branch`` and ``graveler tag``: branches, their protection, and tags."""

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any

from graveler.cli.arguments import Address, LimitOption, read_duration
from graveler.cli.failure import UsageError
from graveler.cli.output import counted
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import StagedByOthersError
from graveler.lake.shapes import moment
from graveler.model import BranchRecord
from graveler.refs.settings import ACTIONS, USUAL

_Name = Annotated[str, "The branch."]
_TagName = Annotated[str, "The tag."]
_Pattern = Annotated[str, "A name, or a pattern as in 'release-*'."]
_Against = Annotated[
    list[str] | None,
    f"({'|'.join(ACTIONS)}): An action to forbid; repeat for more. Else {', '.join(USUAL)}.",
]


@verb("branch create")
def _create(
    session: Session,
    name: _Name,
    source: str = "",
    *,
    exist_ok: bool = False,
    hidden: bool = False,
    ttl: str = "",
) -> None:
    """Make a branch; it copies nothing.

    Args:
        source: Branch, tag or commit to start from; else the default branch.
        exist_ok: No error if it exists already.
        hidden: Leave it out of listings, except list --all.
        ttl (TIME): Time to live, as in 14d: then `maintain` deletes it.
    """
    branch = session.repository.create_branch(
        name,
        source or session.default_branch,
        exist_ok=exist_ok,
        hidden=hidden,
        ttl=read_duration("--ttl", ttl) if ttl else None,
    )
    head = branch.head.id
    session.out.show({"name": name, "commit": head}, f"made branch {name} at {head[:12]}")


@verb("branch expire")
def _expire(session: Session, name: _Name, *, ttl: str = "", never: bool = False) -> None:
    """Set when a branch ends, counted from now.

    `maintain` names it in its last three days and then deletes it, unless files are staged on it,
    a run is to be published to it, or it is protected. `graveler undo` restores it.

    Args:
        ttl (TIME): Time to live, as in 14d.
        never: It does not end.
    """
    if bool(ttl) == never:
        raise UsageError("give --ttl TIME, or --never")
    length = read_duration("--ttl", ttl) if ttl else None
    record = session.repository.expire_branch(name, length)
    shown = f"ends at {_minute(record.ends)}" if record.ends else "does not end"
    session.out.show({"name": name, "ends": moment(record.ends)}, f"branch {name} {shown}")


@verb("branch list")
def _list(
    session: Session, *, everything: bool = False, limit: LimitOption = None, after: str = ""
) -> None:
    """List the branches and their heads, by name.

    Args:
        everything (--all, -a): Include hidden branches and those of runs and steps.
        after (NAME): Only branches that come after this one.
    """
    rules = session.repository.protection.list()
    out = session.out
    for record in session.repository.branches(hidden=everything, limit=limit, after=after):
        shape = _shape(record, rules)
        note = "  (protected)" if shape["protected"] else ""
        note += f"  (ends at {_minute(record.ends)})" if record.ends else ""
        head = out.style(record.commit_id[:12], "yellow")
        out.show(shape, f"{head}  {record.name}{note}")


@verb("branch delete")
def _delete(session: Session, name: _Name) -> None:
    """Delete a branch and its staged writes; its commits stay."""
    session.repository.delete_branch(name)
    session.out.show({"deleted": name}, f"deleted branch {name}")


@verb("branch reset")
def _reset(session: Session, where: list[str], *, hard: str = "", yes: bool = False) -> None:
    """Drop what is staged on a branch; with --hard, also move it to another commit.

    `graveler undo` undoes it, until garbage collection has removed the files.

    Args:
        where (BRANCH[:PATH]...): The branch; with paths, folders (which end with '/') or
            patterns, as in main:tables/ :*.json, only staged files there.
        hard (REF): Also move the branch to that commit.
        yes: Drop what others have staged, too, without a question.
    """
    name, paths = Address.of_staged(where)
    branch = session.branch(name)
    try:
        dropped = branch.reset(hard or None, paths=paths, others=yes)
    except StagedByOthersError as error:
        if not session.out.confirm(f"{str(error).partition(': give ')[0]}; drop them?"):
            raise
        dropped = branch.reset(hard or None, paths=paths, others=True)
    head = branch.head.id
    told = f"dropped {counted(dropped, 'staged file')}" if dropped else "nothing is staged"
    at = f" at {', '.join(paths)}" if paths and not dropped else ""
    session.out.show(
        {"name": branch.name, "discarded": dropped, "commit": head},
        f"{told} on {branch.name}{at}"
        + (f", now at {head[:12]}" if hard else "")
        + (f"; `graveler undo {branch.name}` undoes it" if dropped else ""),
    )


@verb("branch protect")
def _protect(session: Session, pattern: _Pattern, *, against: _Against = None) -> None:
    """Let matching branches move only forward, by merges, or forbid the actions of --against.

    Merge includes publishing runs, revert includes cherry-pick, and reset includes undo.
    """
    session.repository.protection.add(pattern, against)
    _show_protected(session)


@verb("branch unprotect")
def _unprotect(session: Session, pattern: _Pattern) -> None:
    """Remove a pattern of protected branches."""
    session.repository.protection.remove(pattern)
    _show_protected(session)


def _show_protected(session: Session) -> None:
    rules = session.repository.protection.list()
    lines = [f"protected: {pattern} against {', '.join(what)}" for pattern, what in rules.items()]
    session.out.show(
        {"protected": list(rules), "against": rules}, *(lines or ["protected: (none)"])
    )


def _shape(record: BranchRecord, rules: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    against = {
        action
        for pattern, actions in rules.items()
        if fnmatchcase(record.name, pattern)
        for action in actions
    }
    return {
        "name": record.name,
        "commit": record.commit_id,
        "hidden": record.hidden,
        "protected": bool(against),
        "against": [action for action in ACTIONS if action in against],
        "attempt": record.attempt,
        "ends": moment(record.ends),
    }


def _minute(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


@verb("tag create")
def _create_tag(session: Session, name: _TagName, ref: str = "") -> None:
    """Name a commit.

    Args:
        ref: Branch, tag or commit; else the default branch.
    """
    commit = session.repository.tags.create(name, ref or session.default_branch)
    session.out.show({"name": name, "commit": commit.id}, f"tagged {commit.id[:12]} as {name}")


@verb("tag list")
def _list_tags(session: Session) -> None:
    """List the tags and the commits they name."""
    for name, commit in session.repository.tags.list().items():
        head = session.out.style(commit[:12], "yellow")
        session.out.show({"name": name, "commit": commit}, f"{head}  {name}")


@verb("tag undelete")
def _undelete_tag(session: Session, name: _TagName) -> None:
    """Restore a deleted tag at the commit that it named."""
    commit = session.repository.tags.undelete(name)
    session.out.show(
        {"name": name, "commit": commit.id}, f"tagged {commit.id[:12]} as {name} again"
    )


@verb("tag delete")
def _delete_tag(session: Session, name: _TagName) -> None:
    """Remove a tag; the commit stays."""
    session.repository.tags.delete(name)
    session.out.show({"deleted": name}, f"deleted tag {name}")
