# mypy: ignore-errors
"""Connections: what they open, and one that holds a whole lake: PostgreSQL, S3, and their secrets."""

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

import pytest
from airflow.sdk.log import redact

from graveler.config import environment, load_config
from graveler.errors import GravelerError, InvalidInputError, RepositoryNotFoundError
from graveler_airflow import GravelerHook
from graveler_airflow.dag.handles import attached, find_handle, pack
from graveler_airflow.plugin.views import opened, place_of
from graveler_airflow.triggers import GravelerTrigger
from tests.harness.servers.postgres import guarded_server
from tests.real.airflow.home import ROOT

PASSWORD = "pass/word@1"
SECRETS = (PASSWORD, "pass%2Fword%401", "secret-of-s3", "hidd", "ller")


@pytest.fixture(scope="module")
def user():
    """A server that requires the password of the role `lake`: the fields of its connection."""
    with guarded_server("lake", PASSWORD) as folder:
        host = f"postgresql:///postgres?host={folder}"
        yield {"host": host, "login": "lake", "password": PASSWORD}


@pytest.fixture(scope="module")
def storage(s3_server, tmp_path_factory):
    from boto3 import client

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret-of-s3"}
    s3 = client("s3", endpoint_url=s3_server.endpoint, region_name="us-east-1", **keys)
    s3.create_bucket(Bucket="connected")
    s3.close()
    cache = str(tmp_path_factory.mktemp("connected"))
    return {"storage": "s3://connected/lake", "cache": cache}


@pytest.fixture(scope="module")
def extra(storage, s3_server):
    """The extra of a connection with the keys of the store."""
    keys = {"region": "us-east-1", "access_key": "key", "secret_key": "secret-of-s3"}
    return {**storage, **keys, "endpoint_url": s3_server.endpoint}


@pytest.fixture(scope="module")
def whole(connect, user, extra):
    """The connection of a lake with a repository."""
    empty = connect("new", **user, extra=extra)
    assert empty.test_connection() == (True, f"{place()}: no repository yet")
    hook = connect("whole", **user, extra={**extra, "repo": "flights"})
    with hook.get_conn() as lake:
        lake.create_repository("flights")
    return hook


def place():
    return "postgresql://***@/postgres?*** with s3://connected/lake"


def test_the_connection_holds_the_whole_lake(whole, user):
    assert whole.test_connection() == (True, f"{place()}: flights")
    with whole.repository() as repository:
        run = repository.runs.open("hour")
        run.put("a", b"1")
        packed = pack(run.handle, "whole", "open_run")
    assert find_handle(packed).location == ""  # the handle names the connection and no place
    assert "whole" in json.dumps(packed)
    assert "postgresql" not in json.dumps(packed).lower()
    with attached(packed) as run:
        run.put("b", b"2")
        run.commit("both")
        with run.step("program") as step:  # the step's environment has the whole lake
            source = "import graveler\nwith graveler.attach() as step: step.put('c', b'3')"
            variables = {**step.environment(), "PYTHONPATH": str(ROOT)}
            subprocess.run([sys.executable, "-c", source], env=variables, check=True)
        run.publish()
    with whole.repository() as repository:
        assert [entry.path for entry in repository.ref("main").list()] == ["a", "b", "c"]


@pytest.mark.parametrize("role", [{}, {"role_arn": "arn:aws:iam::123456789012:role/lake"}])
def test_the_keys_may_be_in_a_connection_to_aws(
    whole, connect, user, storage, s3_server, monkeypatch, role
):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_server.endpoint)
    place = {"region_name": "us-east-1", "endpoint_url": s3_server.endpoint, **role}
    connect("aws", conn_type="aws", login="key", password="secret-of-s3", extra=place)
    hook = connect("by_aws", **user, extra={**storage, "aws_conn_id": "aws", "repo": "flights"})
    assert hook.test_connection() == whole.test_connection()
    assert asyncio.run(hook.aget_location()) == hook.location
    with opened(place_of("by_aws")) as lake:
        assert lake.repositories() == ["flights"]


def test_a_page_reports_a_missing_connection_to_aws(home, connect, user, storage):
    lost = connect("lost", **user, extra={**storage, "aws_conn_id": "gone"})
    assert "gone" in place_of(lost.graveler_conn_id).trouble


def test_the_same_connection_is_the_same_lake(whole, connect, user, extra):
    assert whole.location == connect("again", **user, extra={**extra, "repo": "flights"}).location


@pytest.fixture
def wrong(connect, user, extra):
    """Return a function that makes a connection with something wrong."""

    def wrong(what):
        fields = {
            "password": {"password": "other"},
            "database": {"host": user["host"].replace("///postgres", "///nowhere")},
            "server": {"host": "postgresql://127.0.0.1:9/lake"},
            "bucket": {"extra": {**extra, "storage": "s3://no-such-bucket/lake"}},
            "endpoint": {
                "extra": {**extra, "endpoint_url": "http://127.0.0.1:9", "no_progress_seconds": 1}
            },
        }[what]
        return connect(f"wrong_{what}", **{**user, "extra": extra, **fields})

    return wrong


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("password", "password authentication failed"),
        ("database", "nowhere"),
        ("server", "127.0.0.1"),
        ("bucket", "no-such-bucket"),
        ("endpoint", "127.0.0.1:9"),
    ],
)
def test_the_test_button_names_the_store_that_fails(wrong, what, reason):
    works, message = wrong(what).test_connection()
    assert works is False
    assert reason in message
    assert PASSWORD not in message


@pytest.mark.parametrize(
    ("what", "reason"), [("password", "password authentication failed"), ("database", "nowhere")]
)
def test_a_deferred_sensor_ends_on_a_login_that_is_refused(wrong, what, reason):
    async def fire():
        name = wrong(what).graveler_conn_id
        given = {"ref": "main", "prefix": "none/", "graveler_conn_id": name}
        return [event async for event in GravelerTrigger("files", "flights", **given).run()]

    with pytest.raises(GravelerError, match=reason):
        asyncio.run(asyncio.wait_for(fire(), 60))


def test_no_secret_is_printed_or_logged(whole, connect, user, extra):
    with whole.get_conn() as lake:
        texts = [repr(lake), whole.test_connection()[1]]
    assert "<Lake env:GRAVELER_POSTGRESQL_POSTGRES_" in texts[0]
    odd = connect("odd", **user, extra={**extra, "secret_key": "hidd\"en'of\\Müller"})
    settings = environment(odd.location.removeprefix("env:"))
    rendered, read = {"env": {"GRAVELER_SETTINGS": settings}}, json.loads(settings)
    texts += [
        redact(f"{PASSWORD} and pass%2Fword%401 and secret-of-s3"),
        redact(environment(whole.location.removeprefix("env:"))),
        str(redact(rendered)),
        *(redact(shown(rendered)) for shown in (str, json.dumps)),
        *(redact(json.dumps(each, ensure_ascii=False)) for each in (rendered, read)),
        *(redact(text) for text in (str(read), repr(settings))),
    ]
    assert [(text, secret) for text in texts for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize(
    ("host", "changed", "reason"),
    [
        ("postgresql://ann:s3cret@db/lake", {}, "holds a password"),
        ("s3://bucket/lake", None, "is an object store"),
        (None, None, "set 'storage'"),
        (None, {"aws_conn_id": "aws"}, "leave one out"),
        ("lake", None, "is a relative path"),
        (None, {"regoin": "us-east-1"}, r"unknown extra \['regoin'\]"),
        ("oracle://db/lake", {}, "no key-value driver"),
    ],
)
def test_a_connection_that_cannot_be_right_is_refused(connect, user, extra, host, changed, reason):
    connect("aws", conn_type="aws")
    fields = {"host": host} if host else user
    more = {} if changed is None else {"extra": {**extra, **changed}}
    with pytest.raises(GravelerError, match=reason) as refused:
        connect("refused", **fields, **more).get_conn()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"profile_name": "lake"}, "profile_name"),
        ({"assume_role_method": "assume_role_with_saml"}, "assume_role_with_saml"),
    ],
)
def test_an_identity_that_s3_does_not_take_is_refused(connect, user, storage, given, reason):
    connect("identity", conn_type="aws", extra=given)
    with pytest.raises(GravelerError, match=reason):
        connect("refused", **user, extra={**storage, "aws_conn_id": "identity"}).get_conn()


def test_settings_of_another_place_are_refused(connect, user, tmp_path):
    folder = {"storage": f"file://{tmp_path}/o", "region": "x"}
    with pytest.raises(InvalidInputError, match="are settings of S3"):
        connect("refused", **user, extra=folder).get_conn()
    with pytest.raises(InvalidInputError, match=r"in its graveler\.toml"):
        file = f"{tmp_path}/graveler.toml"
        connect("refused", host=file, extra={"storage": "s3://b"}).get_conn()
    with pytest.raises(InvalidInputError, match="put it into the host"):
        connect("refused", host="db", schema="lake", port=5432).get_conn()


def test_a_connection_runs_no_command_and_reads_no_variable(connect, user, extra, tmp_path):
    command = {**extra, "secret_key": {"command": f"touch {tmp_path}/made"}}
    with suppress(GravelerError), connect("refused", **user, extra=command).get_conn() as lake:
        lake.repositories()
    assert list(tmp_path.iterdir()) == []
    named = {**extra, "storage": "s3://${HOME}/x"}
    literal = connect("literal", **{**user, "password": "${HOME}"}, extra=named)
    settings = load_config(literal.location)
    assert settings.storage_uri == "s3://${HOME}/x"
    assert "%24%7BHOME%7D" in settings.kv_uri


def test_the_hook_opens_what_the_connection_names(own, repo, connect):
    with GravelerHook().repository() as default:
        assert default.name == "flights"

    async def aopen():
        with await GravelerHook().aget_conn() as lake:
            return lake.repositories()

    assert asyncio.run(aopen()) == ["flights"]
    assert GravelerHook().test_connection() == (True, f"{own.location}: flights")
    with pytest.raises(InvalidInputError, match=r"^connection 'nowhere' names no lake"):
        connect("nowhere").get_conn()
    with pytest.raises(RepositoryNotFoundError, match=r"^no repository 'trains'"):
        GravelerHook().repository("trains").__enter__()
    with pytest.raises(InvalidInputError, match=r"^no repository: name one"):
        connect("mine", host=own.location).repository().__enter__()


def test_the_terms_of_runs_come_from_the_connection_or_settings(own, connect):
    mine = connect("mine", host=own.location, extra={"lease_minutes": 30, "ttl_days": "1.5"})
    assert (mine.lease, mine.ttl) == (timedelta(minutes=30), timedelta(days=1.5))
    default = GravelerHook()
    assert (default.lease, default.ttl) == (timedelta(days=1), timedelta(days=14))


@pytest.mark.parametrize(
    ("host", "extra", "says"),
    [
        ("/dev/null", {}, "no lake at /dev/null"),
        ("empty", {}, "is its volume mounted"),
        ("", {"repo": "trains"}, "no repository 'trains'"),
        ("", {"repo": "flights", "lease_minutes": "soon"}, "lease_minutes 'soon' of connection"),
    ],
)
def test_the_test_button_shows_what_is_wrong(own, repo, connect, tmp_path, host, extra, says):
    empty = tmp_path / "empty"
    empty.mkdir()
    hook = connect("shown", host=str(tmp_path / host) if host else own.location, extra=extra)
    works, message = hook.test_connection()
    assert works is False
    assert says in message
    assert list(empty.iterdir()) == []
