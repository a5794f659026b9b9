"""The start time of a process: the import, and verbs of the command line with both sets of stores.

Modules are compiled once, as those of an installed package are.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import boto3

import graveler
from graveler.lake.factory import write_default_config
from tests.bench.measure import Result, at_most, clocked, ms, progress
from tests.harness.servers.moto import S3Server
from tests.harness.servers.postgres import postgres_server

TIMES = 15
IMPORT_LIMIT = 3.0  # 1.6 on an idle machine
SQLITE_LIMIT, SERVERS_LIMIT = 0.25, 1.0  # seconds
VERBS = (
    ("status",),
    ("ls", "main:"),
    ("log", "-n", "1"),
    ("diff", "main"),
    ("cat", "main:a.csv"),
    ("head", "main:a.csv"),
    ("put", "-", "main:b.csv"),
    ("branch", "list"),
    ("run", "list"),
    ("why", "main:a.csv"),
)


def python(compiled: Path, *arguments: str) -> None:
    """Run the interpreter in a separate process, with the compiled modules of a folder."""
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        input=b"a,b\n",
        stdout=subprocess.DEVNULL,
        env={
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(compiled),
        },
    )


def startup(folder: Path) -> list[Result]:
    """Compare a bare interpreter and the import, and time verbs, each in a separate process."""
    progress("starts of processes")
    compiled = folder / "compiled"
    seconds: dict[str, list[float]] = {"pass": [], "import graveler": []}
    for _ in range(TIMES):
        for code, times in seconds.items():
            times.append(clocked(lambda: python(compiled, "-c", code)))  # noqa: B023 - called now
    bare, imported = (median(times) for times in seconds.values())
    with ExitStack() as servers:
        return [
            at_most(
                "`import graveler` in a new process",
                imported / bare,
                IMPORT_LIMIT,
                "a bare interpreter's start",
                f"{ms(imported)} and {ms(bare)}, medians of {TIMES}",
            ),
            _slowest("SQLite and a folder", _local(folder / "local"), compiled, SQLITE_LIMIT),
            _slowest(
                "PostgreSQL and S3", _remote(folder / "remote", servers), compiled, SERVERS_LIMIT
            ),
        ]


def _local(folder: Path) -> Path:
    write_default_config(folder)
    return folder


def _remote(folder: Path, servers: ExitStack) -> Path:
    """Start both servers on this machine and write the settings of a lake on them."""
    endpoint = servers.enter_context(S3Server()).endpoint
    database = servers.enter_context(postgres_server(durable=True))
    keys = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
    boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=keys["region"],
        aws_access_key_id=keys["access_key"],
        aws_secret_access_key=keys["secret_key"],
    ).create_bucket(Bucket="lake")
    lines = [
        "format = 1",
        "[kv]",
        f'uri = "{database.get_uri()}"',
        "[storage]",
        'uri = "s3://lake/lake"',
        "[s3]",
        f'endpoint_url = "{endpoint}"',
        *(f'{name} = "{value}"' for name, value in keys.items()),
    ]
    folder.mkdir()
    (folder / "graveler.toml").write_text("\n".join(lines))
    (folder / "graveler.toml").chmod(0o600)
    return folder


def _slowest(stores: str, folder: Path, compiled: Path, limit: float) -> Result:
    """Time each verb; judge the slowest."""
    with graveler.open(folder) as lake:
        main = lake.create_repository("bench").branch("main")
        main.put("a.csv", b"a,b\n1,2\n")
        main.commit("a file")
    times = {
        verb[0]: median(
            clocked(
                lambda: python(compiled, "-m", "graveler", "-C", str(folder), *verb)  # noqa: B023 - called now
            )
            for _ in range(TIMES)
        )
        for verb in VERBS
    }
    slowest = max(times.values())
    return Result(
        f"the slowest of {len(times)} verbs in a new process, on {stores}",
        ms(slowest),
        f"at most {ms(limit)}",
        slowest <= limit,
        ", ".join(f"{verb} {ms(seconds)}" for verb, seconds in times.items()),
    )
