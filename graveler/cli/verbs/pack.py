"""``graveler pack``, ``packing`` and ``stats``: show how trees are cut into ranges, and pack them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.failure import UsageError
from graveler.cli.output import size_text
from graveler.cli.session import Session
from graveler.cli.verb import verb

if TYPE_CHECKING:
    from graveler.refs.pack_rule import PackRule

_packing = typer.Typer(
    help="Packing: the rule that decides when branches are packed.", no_args_is_help=True
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    verb(app, "pack")(_pack)
    verb(app, "stats")(_stats)
    app.add_typer(_packing, name="packing")


def _pack(
    session: Session,
    branch: Annotated[str, typer.Argument(metavar="BRANCH")] = "main",
    *,
    everything: Annotated[
        bool,
        typer.Option("--everything", help="Cut all ranges again, after a change of the policy."),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=1, help="Read about this much, and leave the rest."),
    ] = None,
) -> None:
    """Rewrite small and badly cut ranges of a branch's head, in a commit that changes no path."""
    packed = session.repository.pack(branch, everything=everything, limit=limit)
    shape: dict[str, Any] = {
        "commit": None if packed.commit is None else packed.commit.id,
        "before": packed.before,
        "after": packed.after,
        "bytes_read": packed.bytes_read,
        "left": packed.left,
    }
    if packed.commit is None:
        line = f"{branch}: no range is badly cut"
    else:
        line = (
            f"{branch}: {packed.before} ranges of {size_text(packed.bytes_read)} became "
            f"{packed.after}, in commit {packed.commit.id[:12]}"
        )
    left = [f"{packed.left} more are badly cut: run it again"] if packed.left else []
    session.out.show(shape, line, *left)


def _stats(session: Session, ref: Annotated[str, typer.Argument(metavar="REF")] = "main") -> None:
    """Show how a tree is cut into ranges, and the result that a pack would have."""
    stats = session.repository.stats(ref)
    session.out.show(
        asdict(stats),
        f"entries      {stats.entries:,}, {size_text(stats.bytes)} of records",
        f"ranges       {stats.ranges:,}: {size_text(stats.smallest)} to {size_text(stats.largest)}, "
        f"median {size_text(stats.median)}",
        f"small        {stats.small:,}",
        f"fragments    {stats.fragments:,}",
        f"badly cut    {stats.badly_cut:,}, {size_text(stats.badly_cut_bytes)}",
        f"after a pack {stats.packed_ranges:,} ranges, about",
        f"cold listing {stats.scan_cost} object reads of 4 MiB, {stats.packed_scan_cost} after a pack",
    )


@verb(_packing, "show")
def _show(session: Session) -> None:
    """Show the rule: the number of badly cut ranges that starts a pack, and the branches."""
    _show_rule(session, session.repository.packing.show())


@verb(_packing, "set")
def _set(
    session: Session,
    *,
    after: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Pack a branch from N badly cut ranges on; 0: never."
        ),
    ] = None,
    branch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Branches, as `main` or `release-*`; may be repeated. `--branch ''` stands for the "
            "default branch.",
        ),
    ] = None,
) -> None:
    """Change the rule: when a branch is packed, and which branches."""
    if after is None and not branch:
        raise UsageError("nothing to set: give --after, --branch or both")
    branches = [pattern for pattern in branch if pattern] if branch else None
    _show_rule(session, session.repository.packing.set(after=after, branches=branches))


def _show_rule(session: Session, rule: "PackRule") -> None:
    after = f"{rule.after:,} badly cut ranges" if rule.after else "never"
    branches = ", ".join(rule.branches) or "the default branch"
    session.out.show(asdict(rule), f"after     {after}", f"branches  {branches}")
