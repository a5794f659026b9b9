"""What tests look at: main, failures, tags of a range, and what an asset has read."""

import dagster as dg

RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


def span(first, last):
    """Return the tags of a run for a range of partitions."""
    return dict(zip(RANGE, (first, last), strict=True))


def paths(view, prefix=""):
    return [entry.path for entry in view.entries(prefix)]


def on_main(repo, prefix=""):
    return paths(repo.ref("main"), prefix)


def tree(view):
    """Return the texts of a view by path."""
    return {entry.path: view.get(entry.path).decode() for entry in view.list()}


def failed_steps(result):
    return sorted(event.step_key for event in result.all_events if event.is_step_failure)


def reason(result, step):
    """Return the description and the metadata of a step's failure."""
    failure = result.failure_data_for_node(step).user_failure_data
    return failure.description, {name: value.value for name, value in failure.metadata.items()}


def checks_of(result):
    """Return whether each check of a Dagster run has passed, by asset and name."""
    return {
        (check.asset_key.to_user_string(), check.check_name): check.passed
        for check in result.get_asset_check_evaluations()
    }


def shown(result, asset):
    """Return the metadata of the only materialization of an asset."""
    (made,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in made.metadata.items()}


def passing(value, *kinds):
    """Return an asset that returns the value, and one for each kind that keeps its argument."""
    seen = {}

    @dg.asset
    def made():
        return value

    def reader(number, kind):
        def keep(made):
            seen[kind] = made

        keep.__annotations__["made"] = kind
        return dg.asset(name=f"reader_{number}")(keep)

    return [made, *(reader(number, kind) for number, kind in enumerate(kinds))], seen
