"""What Airflow's tasks and asset events show of each hour, compared with what main has."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from graveler.lake import Repository
from tests.real.chaos.judging import publishes, standing_runs


def compare(
    repository: Repository,
    events: Iterable[Mapping[str, Any]],
    merged: Collection[str],
    quiet: Collection[str],
) -> list[str]:
    """Return a line for each run of which Airflow shows something else than main has.

    Args:
        repository: The repository.
        events: The events of the asset that publishes have.
        merged: The keys of the runs whose merge was successful.
        quiet: The keys of the runs that another deployment may have published.
    """
    made = publishes(repository)
    named = {
        event["extra"]["commit"]: event["extra"]["run"]
        for event in events
        if event["extra"].get("changed") and "commit" in event["extra"]
    }
    wrong = []
    for commit, key in named.items():
        if (owner := repository.commit(commit).metadata.get("graveler.run")) != key:
            wrong.append(f"the event of {key!r} names {commit}, a commit of {owner!r}")
    for key in standing_runs(repository):
        head = made[key][-1].id
        if key not in merged:
            wrong.append(f"main has {key!r}, and no merge of it was successful")
        if head not in named and key not in quiet:
            wrong.append(f"main has {key!r} as {head}, and no event names it")
    order = [key for key in made if key.startswith("chained ")]
    if order != sorted(order):
        wrong.append(f"hours were published before those that they depend on: {order}")
    return wrong
