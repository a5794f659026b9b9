# mypy: ignore-errors
"""Prints the results of connections of several kinds, or why they are refused."""

import asyncio
import json
import os
import pathlib
import tempfile
import warnings

from graveler.errors import GravelerError
from graveler.lake.factory import write_default_config
from graveler_airflow import GravelerHook

warnings.filterwarnings("error", module="graveler")


def connect(name, **connection):
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "graveler", **connection})
    return GravelerHook(name)


def refusal(act):
    try:
        act()
    except GravelerError as error:
        return f"{error.code}: {error}"


lake = str(GravelerHook().location)
empty = tempfile.mkdtemp()
nowhere = connect("nowhere")
uri = connect("uri", host="postgresql://ann:s3cret@db/lake")
missing = connect("missing", host=empty)
wrong = connect("wrong", host=lake, extra={"repo": "trains"})
broken = connect("broken", host="/dev/null")
odd = connect("odd", host=lake, extra={"repo": "flights", "lease_minutes": "soon"})
mine = connect("mine", host=lake, extra={"lease_minutes": 30, "ttl_days": "1.5"})

away = pathlib.Path(tempfile.mkdtemp())
write_default_config(away, kv_uri="postgresql://user@127.0.0.1:9/none", storage_uri="file://o")
unreachable = connect("unreachable", host=str(away))


async def aopen():
    lake = await GravelerHook().aget_conn()
    with lake:
        return lake.repositories()


with GravelerHook().repository() as repository:
    default = repository.name
print(
    json.dumps(
        {
            "default": default,
            "async": asyncio.run(aopen()),
            "works": GravelerHook().test_connection(),
            "broken": broken.test_connection(),
            "missing": missing.test_connection(),
            "made": [file.name for file in pathlib.Path(empty).iterdir()],
            "wrong": wrong.test_connection(),
            "unreachable": unreachable.test_connection(),
            "odd": odd.test_connection(),
            "terms": [
                str(GravelerHook().lease),
                str(GravelerHook().ttl),
                str(mine.lease),
                str(mine.ttl),
            ],
            "nowhere": refusal(nowhere.get_conn),
            "uri": refusal(uri.get_conn),
            "unknown": refusal(lambda: GravelerHook().repository("trains").__enter__()),
            "no repository": refusal(lambda: mine.repository().__enter__()),
        }
    )
)
