"""Settings in an orchestrator: a URI, a user and a password give a lake."""

import pytest

import graveler
from graveler.config import load_config
from graveler.errors import InvalidInputError
from graveler_common.settings import kv_uri, settings_location

SECRET = "s3cret/@:%"
ENCODED = "s3cret%2F%40%3A%25"


@pytest.mark.parametrize(
    ("uri", "user", "password", "complete"),
    [
        ("postgresql://db/lake", "", "", "postgresql://db/lake"),
        ("postgresql://db:5432/lake", "ann", SECRET, f"postgresql://ann:{ENCODED}@db:5432/lake"),
        ("postgresql://ann@db/lake", "", SECRET, f"postgresql://ann:{ENCODED}@db/lake"),
        ("postgresql://ann@db/lake", "ann", SECRET, f"postgresql://ann:{ENCODED}@db/lake"),
        ("mysql://db/lake?ssl=1", "a@b", "", "mysql://a%40b@db/lake?ssl=1"),
        ("postgresql:///lake?host=/tmp/pg", "ann", "x", "postgresql://ann:x@/lake?host=/tmp/pg"),
        ("dynamodb://table?region=eu-central-1", "", "", "dynamodb://table?region=eu-central-1"),
    ],
)
def test_user_and_password_are_put_into_the_uri(uri, user, password, complete):
    assert kv_uri(uri, user, password, what="the host") == complete


@pytest.mark.parametrize(
    ("uri", "user", "password", "reason"),
    [
        ("postgresql://ann:s3cret@db/lake", "", "", "holds a password"),
        ("postgresql://ann:s3cret/x@db/lake", "", "", "holds a password|cannot be read"),
        ("postgresql://ann@db/lake", "bob", "s3cret", "the login is another"),
        ("postgresql://db/lake", "", "s3cret", "without a login"),
        ("s3://s3cret:s3cret@bucket/lake", "", "", "is an object store"),
        ("dynamodb://table", "ann", "s3cret", "takes no login"),
        ("sqlite:///kv.sqlite3", "ann", "s3cret", "takes no login"),
        ("postgresql://[s3cret/lake", "ann", "s3cret", "cannot be read"),
    ],
)
def test_a_uri_that_contradicts_them_is_refused(uri, user, password, reason):
    with pytest.raises(InvalidInputError, match=reason) as error:
        kv_uri(uri, user, password, what="the host")
    if "[" not in uri:
        assert "s3cret" not in str(error.value)


def test_the_location_of_settings_holds_no_secret(tmp_path):
    kv = f"postgresql://ann:{ENCODED}@db.example:5432/lake?password=s3cret"
    location = settings_location({"kv": {"uri": kv}, "storage": {"uri": "s3://bucket"}})
    assert location.startswith("env:GRAVELER_POSTGRESQL_DB_EXAMPLE_5432_LAKE_")
    assert "s3cret" not in location.lower()
    assert load_config(location).kv_uri == kv


def test_equal_settings_are_one_lake_and_others_another(tmp_path):
    tables = {
        "kv": {"uri": f"sqlite://{tmp_path}/kv"},
        "storage": {"uri": f"file://{tmp_path}/objects"},
        "cache": {"folder": ""},
    }
    location = settings_location(tables)
    assert settings_location(dict(reversed(tables.items()))) == location
    other = settings_location({**tables, "storage": {"uri": f"file://{tmp_path}/others"}})
    assert other != location
    with graveler.open(location) as lake:
        lake.create_repository("flights")
    with graveler.open(location) as lake:
        assert lake.repositories() == ["flights"]
