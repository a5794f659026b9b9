# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""The operators of a repository, with right and wrong use; prints the outcomes."""

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import graveler
import graveler_airflow as ga
from graveler_airflow.dag.handles import pack

os.environ["AIRFLOW__API__BASE_URL"] = "https://airflow.example/"
folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps(
    {"conn_type": "graveler", "host": folder, "extra": {"repo": "flights"}}
)
results = {}


def context(task_id, tried=1, map_index=-1):
    ti = SimpleNamespace(
        task_id=task_id,
        map_index=map_index,
        try_number=tried,
        run_id="r1",
        xcom_push=lambda key, value: None,
        log_url=f"https://airflow.example/log/{task_id}",
    )
    run = SimpleNamespace(dag_id="d", run_id="r1", run_after=datetime(2013, 1, 1, 5, tzinfo=UTC))
    return {"ti": ti, "dag_run": run}


def outcome(operator, tried=1):
    try:
        return operator.execute(context(operator.task_id, tried))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def tries(operator, count=2):
    return [outcome(operator, number + 1) for number in range(count)]


with graveler.open(folder, create=True) as lake:
    repo = lake.create_repository("flights")
    main = repo.branch("main")
    main.put("a", b"1")
    first = main.commit("first")

    create = ga.GravelerCreateBranchOperator(task_id="create", branch="dev")
    results["create"] = tries(create)
    dev = repo.branch("dev")
    dev.put("b", b"2")

    commit = ga.GravelerCommitOperator(
        task_id="commit", branch="dev", message="more", metadata={"source": "bts"}
    )
    results["commit"] = [*tries(commit), dev.head.id]
    results["metadata"] = dict(dev.head.metadata)
    results["links"] = [
        link.get_link(commit, ti_key=SimpleNamespace(dag_id="d", run_id="r1"))
        for link in commit.operator_extra_links
    ]

    def other(**more):
        return ga.GravelerCommitOperator(task_id="other", branch="dev", message="x", **more)

    results["nothing to commit"] = outcome(other())
    results["nothing: skip"] = outcome(other(on_empty="skip"))
    results["nothing: commit"] = outcome(other(on_empty="commit")) == repo.branch("dev").head.id
    results["elsewhere"] = outcome(ga.GravelerCreateBranchOperator(task_id="c", branch="dev"))
    results["exist_ok"] = outcome(
        ga.GravelerCreateBranchOperator(task_id="c", branch="dev", exist_ok=True)
    )

    merge = ga.GravelerMergeOperator(task_id="merge", source="dev", metadata={"why": "done"})
    results["merge"] = [*tries(merge), main.head.id]
    results["merge says"] = [main.head.metadata["why"], main.head.metadata["airflow.task_id"]]

    tag = ga.GravelerTagOperator(task_id="tag", tag="v1")
    results["tag"] = [*tries(tag), repo.tags.list()["v1"]]
    revert = ga.GravelerRevertOperator(task_id="revert", commit="v1")
    results["revert"] = [*tries(revert), main.head.id, [entry.path for entry in main.entries()]]
    results["tag elsewhere"] = outcome(tag, 3)
    results["nothing to revert"] = outcome(
        ga.GravelerRevertOperator(task_id="again", commit="v1", parent=1)
    )

    dev.put("a", b"3")
    dev.commit("3")
    main.put("a", b"4")
    main.commit("4")
    results["conflict"] = outcome(ga.GravelerMergeOperator(task_id="clash", source="dev"))

    landing = Path(tempfile.mkdtemp())
    repo.links.allow(str(landing))
    (landing / "05").mkdir()
    for name in ("x.csv", "y.csv", "y.txt"):
        (landing / "05" / name).write_text(name)
    link = ga.GravelerLinkOperator(
        task_id="link",
        branch="main",
        source=str(landing),
        prefix="input/2013/01/01/",
        pattern="*.csv",
    )
    results["link"] = [*tries(link), main.head.id]
    results["linked"] = {
        entry.path: [main.get(entry.path).decode(), entry.address.rpartition("/")[2], entry.size]
        for entry in main.entries("input/")
    }

    def empty(**more):
        return ga.GravelerLinkOperator(
            task_id="none", branch="main", source=str(landing / "06"), prefix="input/06", **more
        )

    results["no files yet"] = outcome(empty())
    results["no files"] = outcome(empty(missing_ok=True))

    outcome(
        ga.GravelerLinkOperator(
            task_id="top", branch="main", source=str(landing), prefix="", pattern="*.txt"
        )
    )
    results["at the top"] = [entry.path for entry in main.entries() if entry.path.endswith(".txt")]

    delete = ga.GravelerDeleteOperator(
        task_id="delete", branch="main", prefix="input/2013/01/01/05/x"
    )
    results["delete"] = [*tries(delete), main.head.id, [e.path for e in main.entries("input/")]]

    for name in ("x", "y", "xy", "z"):
        main.put(name, b"1")
    main.commit("names")

    def without(paths):
        outcome(ga.GravelerDeleteOperator(task_id="named", branch="main", paths=paths))
        return [entry.path for entry in main.entries() if len(entry.path) < 3]

    results["delete named"] = [without("xy"), without(["y", "z"])]

    run = repo.runs.open("in a run")
    step = ga.GravelerLinkOperator(
        task_id="stepped",
        run=pack(run.handle),
        source=str(landing),
        prefix="run/input/",
        pattern="*.csv",
    )
    results["step"] = [*tries(step), repo.commit(run.branch).id]
    results["step is"] = repo.commit(run.branch).metadata["graveler.step"]
    results["in the run"] = [e.path for e in repo.ref(run.branch).entries("run/")]
    results["main meanwhile"] = [e.path for e in repo.ref("main").entries("run/")]

    drop = ga.GravelerDeleteBranchOperator(task_id="drop", branch="dev")
    results["drop"] = tries(drop)
    results["drop none"] = outcome(ga.GravelerDeleteBranchOperator(task_id="none", branch="dev"))
    results["drop none ok"] = outcome(
        ga.GravelerDeleteBranchOperator(task_id="none", branch="dev", missing_ok=True)
    )
    results["branches"] = [branch.name for branch in repo.branches()]
    results["gone"] = outcome(ga.GravelerCommitOperator(task_id="gone", branch="dev", message="x"))

    wrong = {}
    for name, make in {
        "both": lambda: ga.GravelerLinkOperator(
            task_id="t", run="r", branch="b", source="s", prefix="p"
        ),
        "none": lambda: ga.GravelerDeleteOperator(task_id="t", branch="main"),
        "on_empty": lambda: ga.GravelerCommitOperator(task_id="t", branch="b", on_empty="pass"),
    }.items():
        try:
            make()
        except Exception as error:
            wrong[name] = str(error)
    results["wrong"] = wrong
    classes = {
        name: getattr(ga, name) for name in ga.__all__ if name.endswith(("Operator", "Sensor"))
    }
    results["templated"] = sorted(
        f"{name} {field}" for name, made in classes.items() for field in made.template_fields
    )
    results["as text"] = sorted(
        f"{name} {field}"
        for name, made in classes.items()
        for field in {"metadata", "paths", "run"} & {*made.template_fields}
        if field not in made.template_fields_renderers
    )
print(json.dumps(results))
