"""A connection that holds a whole lake: PostgreSQL, S3, and the secrets of both."""

import pytest

from tests.harness.servers.postgres import guarded_server

PASSWORD = "pass/word@1"


@pytest.fixture(scope="module")
def socket():
    """The folder of the socket of a server that requires the password of the role `lake`."""
    with guarded_server("lake", PASSWORD) as folder:
        yield folder


@pytest.fixture(scope="module")
def results(home, socket, s3_server, tmp_path_factory):
    from boto3 import client

    endpoint = s3_server.endpoint
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret-of-s3"}
    s3 = client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    s3.create_bucket(Bucket="connected")
    s3.close()
    folder = tmp_path_factory.mktemp("connected")
    return home.ask("connections", socket, endpoint, "connected", folder)


def test_the_connection_holds_the_whole_lake(results):
    place = "postgresql://***@/postgres?*** with s3://connected/lake"
    assert results["empty"] == [True, f"{place}: no repository yet"]
    assert results["works"] == [True, f"{place}: flights"]
    assert results["published"] == ["a", "b", "c"]  # a program wrote c


def test_the_keys_may_be_in_a_connection_to_aws(results):
    assert results["by aws"] == results["works"]
    assert results["by role"] == results["works"]
    assert results["page"] == ["flights"]
    assert "gone" in results["page without aws"]


def test_a_trigger_finds_the_same_lake(results):
    assert results["async"] is True
    assert results["same lake"] is True


def test_a_deferred_sensor_ends_on_a_login_that_is_refused(results):
    refused = results["deferred"]
    assert "password authentication failed" in refused["password"]
    assert "nowhere" in refused["database"]


def test_the_handle_of_a_run_names_the_connection_and_no_place(results):
    assert results["location"] == ""
    assert "whole" in results["handle"]
    assert "postgresql" not in results["handle"].lower()


def test_no_secret_is_printed_or_logged(results):
    assert "<Lake env:GRAVELER_POSTGRESQL_POSTGRES_" in results["printed"]
    texts = results["masked"] + [results["printed"], results["handle"], results["works"][1]]
    for text in texts:
        for secret in (PASSWORD, "pass%2Fword%401", "secret-of-s3", "hidd", "ller"):
            assert secret not in text


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("password", "password authentication failed"),
        ("database", "nowhere"),
        ("server", "127.0.0.1"),
        ("bucket", "no-such-bucket"),
        ("endpoint", "127.0.0.1:9"),
    ],
)
def test_the_test_button_names_the_store_that_fails(results, wrong, reason):
    works, message = results["test says"][wrong]
    assert works is False
    assert reason in message
    assert PASSWORD not in message


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("password in host", "holds a password"),
        ("store as host", "is an object store"),
        ("no storage", "set 'storage'"),
        ("two keys", "leave one out"),
        ("role", "profile_name"),
        ("saml", "assume_role_with_saml"),
        ("keys of a folder", "are settings of S3"),
        ("storage of a file", "in its graveler.toml"),
        ("relative", "is a relative path"),
        ("typo", "unknown extra ['regoin']"),
        ("parts", "put it into the host"),
        ("no driver", "no key-value driver"),
    ],
)
def test_a_connection_that_cannot_be_right_is_refused(results, wrong, reason):
    message = results["refused"][wrong]
    assert reason in message
    assert "s3cret" not in message


def test_a_connection_runs_no_command_and_reads_no_variable(results):
    assert results["made"] is False
    assert results["literal"] == ["s3://${HOME}/x", True]
