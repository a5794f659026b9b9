"""What users of git and lakectl type, errors of the parser, and what a verb may import."""

import json
import subprocess
import sys
from typing import Any

import pytest

from graveler.cli import main

HABITS = [
    ("checkout dev", "`graveler ls dev`"),
    ("checkout -b dev", "`graveler branch create dev`"),
    ("branch -d dev", "`graveler branch delete dev`"),
    ("branch new", "`graveler branch create new`"),
    ("tag v1", "`graveler tag create v1`"),
    ("tag -l", "`graveler tag list`"),
    ("blame a.csv", "`graveler why REF:PATH`"),
    ("stash", "`graveler branch create NAME`"),
    ("-R flights stash", "`graveler branch create NAME`"),
    ("push origin main", "there is no remote"),
    ("commit -a -m x", "`graveler commit -m TEXT`"),
    ("merge --abort", "nothing to abort"),
    ("reset --hard main~1", "`graveler branch reset BRANCH`"),
    ("fs upload a b", "`graveler put FILE BRANCH:PATH`"),
    ("log --all", "`graveler reflog`"),
    ("log main --stat", "`graveler show REF --stat`"),
    ("diff --cached", "`graveler diff BRANCH`"),
    ("restore --source=v1 a.csv", "`graveler cp v1:a.csv BRANCH:a.csv`"),
    ("restore --source v1 a.csv", "`graveler cp v1:a.csv BRANCH:a.csv`"),
    ("restore a.csv", "`graveler branch reset BRANCH:PATH`"),
    ("reset --soft main~1", "`graveler undo BRANCH`"),
    ("commit -am x", "`graveler commit -m TEXT`"),
    ("branch -v", "`graveler branch list`"),
    ("show main:readme.txt", "`graveler cat main:readme.txt`"),
    ("diff main...dev", "`graveler merge dev main --dry-run`"),
    ("crate", "No such command 'crate'"),
    ("branch crate", "Did you mean 'create'? See `graveler branch --help`"),
    ("merge one", "Missing argument 'into'; see `graveler merge --help`"),
    ("log --nope", "see `graveler log --help`"),
]


@pytest.mark.parametrize(("call", "says"), HABITS)
def test_a_git_habit_is_answered_by_one_line(cli, call, says):
    said = cli(*call.split())
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert says in said.err
    assert len(said.err.splitlines()) == 1
    asked = cli("--json", *call.split())
    assert (asked.code, asked.out) == (2, "")
    assert says in json.loads(asked.err)["error"]["message"]


@pytest.mark.parametrize(
    ("call", "same"),
    [
        ("diff main..dev", "diff main dev"),
        ("log -1 dev", "log -n 1 dev"),
        ("head -1 main:input/05:00/a.csv", "head -n 1 main:input/05:00/a.csv"),
        ("--json reflog -2 main", "--json reflog -n 2 main"),
    ],
)
def test_a_git_habit_works(cli, history, call, same):
    said = cli(*call.split())
    assert said == cli(*same.split())
    assert (said.code, bool(said.out)) == (0, True)


def test_a_group_without_a_command_shows_its_help_once(cli):
    said = cli("branch")
    assert said.code == 2
    assert (said.out + said.err).count("Branches: make, list, protect, delete.") == 1


def homes_of(app: Any) -> dict[str, set[str]]:
    """Return the modules of the verbs, by the first word of each verb."""
    homes = {command.name: {command.callback.__module__} for command in app.registered_commands}
    for group in app.registered_groups:
        inner = homes_of(group.typer_instance).values()
        homes[group.typer_instance.info.name] = set().union(*inner)
    return homes


def test_each_verb_is_in_the_module_that_the_table_names():
    told: dict[str, set[str]] = {}
    for module, words in main._VERBS.items():
        for word in words.split():
            told.setdefault(word, set()).add(f"graveler.cli.verbs.{module}")
    assert homes_of(main.load()) == told


# modules that a verb of this kind has no use for
UNUSED = {"boto3", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rich", "sqlalchemy", "ssl"}
READS = (
    "ls|stat main:a|cat main:a|log -n 1|diff main~1 main|branch list|status|repo list|tree|du|run list"
    "|why main:a"
)
LOOKS = "status|tree|du|cat main:a|head main:a|diff main~1 main --stat|ls main:*"
WRITES = "put a main:b|rm main:a|branch create x|tag create y|commit -m b --allow-empty|undo main"
# verbs that show runs need gates' records
OF_GATES = {"status", "run", "why"}
CHECKS = {
    f"graveler.gates.checks.{name}" for name in ("columns", "dbt", "rows", "schemas", "tables")
}


@pytest.mark.parametrize("call", [*READS.split("|"), *LOOKS.split("|"), *WRITES.split("|")])
def test_a_verb_imports_no_more_than_it_needs(folder, history, call):
    (folder / "a").write_bytes(b"1")
    main_branch = history.branch("main")
    main_branch.put("a", b"1")
    main_branch.commit("a")
    program = (
        "import json, sys; from graveler.cli.main import main\n"
        f"sys.argv[1:] = {call.split()}\n"
        "try:\n    main()\n"
        "finally:\n    print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    verbs = {name for name in loaded if name.startswith("graveler.cli.verbs.")}
    word = call.split()[0]
    homes = {name.split(".")[0] for name, words in main._VERBS.items() if word in words.split()}
    assert {name.split(".")[3] for name in verbs} == homes
    heavy = {
        "graveler.collections",
        "graveler.keep",
        "graveler.iam",
        "graveler.gc",
        "graveler.ingest",
        "graveler.frames.reader",
        "graveler.frames.spark.session",
        *(["graveler.gates"] if word not in OF_GATES else []),
    }
    assert loaded.isdisjoint(UNUSED | CHECKS | heavy)
