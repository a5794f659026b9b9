# mypy: ignore-errors
"""Uses connections that hold a whole lake, and prints the results as JSON.

Arguments: the folder of PostgreSQL's socket, the endpoint of S3, a bucket, a folder for caches.
"""

import asyncio
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

from airflow.sdk.log import redact

from graveler.config import load_config
from graveler.errors import GravelerError
from graveler_airflow import GravelerHook
from graveler_airflow.dag.handles import attached, find_handle, pack
from graveler_airflow.plugin.views import opened, place_of
from graveler_airflow.triggers import GravelerTrigger

warnings.filterwarnings("error", module="graveler")
socket, endpoint, bucket, folder = sys.argv[1:]
KV = f"postgresql:///postgres?host={socket}"
PASSWORD = "pass/word@1"
STORAGE = {"storage": f"s3://{bucket}/lake", "cache": f"{folder}/cache"}
KEYS = {
    "endpoint_url": endpoint,
    "region": "us-east-1",
    "access_key": "key",
    "secret_key": "secret-of-s3",
}


def connect(name, conn_type="graveler", **connection):
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": conn_type, **connection})
    return GravelerHook(name)


def refusal(act):
    try:
        act()
    except GravelerError as error:
        return f"{error.code}: {error}"
    return "no refusal"


def lake_of(hook):
    with hook.get_conn() as lake:
        return lake.repositories()


user = {"host": KV, "login": "lake", "password": PASSWORD}
whole = connect("whole", **user, extra={**STORAGE, **KEYS, "repo": "flights"})
connect(
    "aws",
    conn_type="aws",
    login="key",
    password="secret-of-s3",
    extra={"region_name": "us-east-1", "endpoint_url": endpoint},
)
connect("role", conn_type="aws", extra={"profile_name": "lake"})
connect("saml", conn_type="aws", extra={"assume_role_method": "assume_role_with_saml"})
by_aws = connect("by_aws", **user, extra={**STORAGE, "aws_conn_id": "aws", "repo": "flights"})

results = {"empty": connect("new", **user, extra={**STORAGE, **KEYS}).test_connection()}
with whole.get_conn() as lake:
    lake.create_repository("flights")
    results["printed"] = repr(lake)
results["works"] = whole.test_connection()
results["by aws"] = by_aws.test_connection()
connect(
    "assumed",
    conn_type="aws",
    login="key",
    password="secret-of-s3",
    extra={
        "region_name": "us-east-1",
        "endpoint_url": endpoint,
        "role_arn": "arn:aws:iam::123456789012:role/lake",
    },
)
os.environ["AWS_ENDPOINT_URL_STS"] = endpoint
assumed = connect("by_role", **user, extra={**STORAGE, "aws_conn_id": "assumed", "repo": "flights"})
results["by role"] = assumed.test_connection()

with whole.repository() as repository:
    run = repository.runs.open("hour")
    run.put("a", b"1")
    packed = pack(run.handle, "whole", "open_run")
results["handle"] = json.dumps(packed)
results["location"] = find_handle(packed).location
with attached(packed) as run:
    run.put("b", b"2")
    run.commit("both")
    with run.step("program") as step:  # the step's environment has the whole lake
        source = "import graveler\nwith graveler.attach() as step: step.put('c', b'3')"
        variables = {**step.environment(), "PYTHONPATH": os.environ["PYTHONPATH"]}
        subprocess.run([sys.executable, "-c", source], env=variables, check=True)
    run.publish()
with by_aws.repository() as repository:
    results["published"] = [entry.path for entry in repository.ref("main").list()]


async def alocation():
    return await by_aws.aget_location()


results["async"] = asyncio.run(alocation()) == by_aws.location
results["same lake"] = (
    whole.location == connect("again", **json.loads(os.environ["AIRFLOW_CONN_WHOLE"])).location
)
with opened(place_of("by_aws")) as lake:
    results["page"] = lake.repositories()
results["page without aws"] = place_of(
    connect("lost", **user, extra={**STORAGE, "aws_conn_id": "gone"}).graveler_conn_id
).trouble

results["masked"] = [
    redact(f"{PASSWORD} and pass%2Fword%401"),
    redact(os.environ[whole.location.removeprefix("env:")]),
    redact("secret-of-s3"),
]
odd = connect("odd", **user, extra={**STORAGE, **KEYS, "secret_key": "hidd\"en'of\\Müller"})
settings = os.environ[odd.location.removeprefix("env:")]
rendered = {"env": {"GRAVELER_SETTINGS": settings}}
results["masked"] += [
    str(redact(rendered)),
    redact(str(rendered)),
    redact(json.dumps(rendered)),
    redact(json.dumps(rendered, ensure_ascii=False)),
    redact(json.dumps(json.loads(settings), ensure_ascii=False)),
    redact(str(json.loads(settings))),
    redact(repr(settings)),
]

bare = {**STORAGE, **KEYS}
wrong = {
    "password": {**user, "password": "other", "extra": bare},
    "database": {**user, "host": KV.replace("///postgres", "///nowhere"), "extra": bare},
    "server": {**user, "host": "postgresql://127.0.0.1:9/lake", "extra": bare},
    "bucket": {**user, "extra": {**bare, "storage": "s3://no-such-bucket/lake"}},
    "endpoint": {**user, "extra": {**bare, "endpoint_url": "http://127.0.0.1:9"}},
}
results["test says"] = {
    name: connect(f"wrong_{name}", **connection).test_connection()
    for name, connection in wrong.items()
}


def deferred(name):
    """Return the events that end the wait of a sensor's trigger."""

    async def fire():
        trigger = GravelerTrigger(
            "files", "flights", ref="main", prefix="none/", graveler_conn_id=f"wrong_{name}"
        )
        return [event.payload async for event in trigger.run()]

    async def wait():
        return await asyncio.wait_for(fire(), 60)

    return refusal(lambda: asyncio.run(wait()))


results["deferred"] = {name: deferred(name) for name in ("password", "database")}
refused = {
    "password in host": {"host": "postgresql://ann:s3cret@db/lake", "extra": bare},
    "store as host": {"host": "s3://bucket/lake"},
    "no storage": user,
    "two keys": {**user, "extra": {**bare, "aws_conn_id": "aws"}},
    "role": {**user, "extra": {**STORAGE, "aws_conn_id": "role"}},
    "saml": {**user, "extra": {**STORAGE, "aws_conn_id": "saml"}},
    "keys of a folder": {**user, "extra": {"storage": f"file://{folder}/o", "region": "x"}},
    "storage of a file": {"host": f"{folder}/graveler.toml", "extra": {"storage": "s3://b"}},
    "relative": {"host": "lake"},
    "typo": {**user, "extra": {**bare, "regoin": "us-east-1"}},
    "parts": {"host": "db", "schema": "lake", "port": 5432},
    "command": {**user, "extra": {**bare, "secret_key": {"command": f"touch {folder}/made"}}},
    "no driver": {"host": "oracle://db/lake", "extra": bare},
}
results["refused"] = {
    name: refusal(lambda connection=connection: lake_of(connect("refused", **connection)))
    for name, connection in refused.items()
}
results["made"] = Path(folder, "made").exists()
literal = {**user, "password": "${HOME}", "extra": {**bare, "storage": "s3://${HOME}/x"}}
settings = load_config(connect("literal", **literal).location)
results["literal"] = [settings.storage_uri, "%24%7BHOME%7D" in settings.kv_uri]
print(json.dumps(results))
