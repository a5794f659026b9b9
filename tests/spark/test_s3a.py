"""Spark's settings for a lake on S3."""

import pytest

from graveler.errors import InvalidInputError
from graveler.frames.spark.s3a import bundled_hadoop, s3a_settings

BUCKET = "spark.hadoop.fs.s3a.bucket.lake."
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
ASSUMED = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"


def settings(options, **jars):
    """Return the settings of the bucket without their prefix, and the other settings."""
    made = s3a_settings("s3://lake/tables", options, hadoop="3.5.0", **jars)
    own = {key.removeprefix(BUCKET): made.pop(key) for key in [*made] if key.startswith(BUCKET)}
    return own, made


def test_a_store_of_its_own_gets_endpoint_keys_and_coordinates():
    own, others = settings(
        {"endpoint_url": "http://127.0.0.1:9000", "access_key": "me", "secret_key": "x"}
    )
    assert own == {
        "endpoint": "http://127.0.0.1:9000",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "me",
        "secret.key": "x",
        "aws.credentials.provider": SIMPLE,
    }
    assert others == {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}


def test_the_usual_settings_of_aws_are_left_to_it():
    assert settings({})[0] == {}
    assert settings({"region": "eu-central-1"})[0] == {"endpoint.region": "eu-central-1"}
    own, _ = settings({"endpoint_url": "https://s3.example", "path_style": "false"})
    assert own["path.style.access"] == "false"
    assert "connection.ssl.enabled" not in own


@pytest.mark.parametrize(
    ("options", "provider"),
    [({"session_token": "t"}, TEMPORARY), ({"role_arn": "arn:aws:iam::1:role/etl"}, ASSUMED)],
)
def test_temporary_keys_and_roles_have_providers(options, provider):
    own, _ = settings({"access_key": "me", "secret_key": "x", **options})
    assert own["aws.credentials.provider"] == provider
    assert set(options.values()) <= set(own.values())


def test_what_s3a_has_no_setting_for_is_refused():
    with pytest.raises(InvalidInputError, match="external_id: S3A"):
        settings({"role_arn": "arn:aws:iam::1:role/etl", "external_id": "7"})


def test_jars_of_a_folder_take_the_place_of_coordinates(tmp_path):
    for name in ("hadoop-aws-3.5.0.jar", "bundle-2.35.4.jar"):
        (tmp_path / name).touch()
    _, others = settings({}, jars=tmp_path)
    assert others == {"spark.jars": f"{tmp_path}/bundle-2.35.4.jar,{tmp_path}/hadoop-aws-3.5.0.jar"}


def test_the_committer_is_used_where_its_jar_is(tmp_path):
    (tmp_path / "spark-hadoop-cloud_2.13-4.1.1.jar").touch()
    _, others = settings({}, jars=tmp_path)
    assert others["spark.hadoop.fs.s3a.committer.name"] == "magic"
    assert others["spark.sql.sources.commitProtocolClass"].endswith("PathOutputCommitProtocol")
    assert others["spark.jars.packages"] == "org.apache.hadoop:hadoop-aws:3.5.0"


def test_a_folder_without_jars_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="there is no jar"):
        settings({}, jars=tmp_path)


def test_a_lake_on_disk_needs_no_settings():
    assert s3a_settings("file:///lake/objects", {}) == {}


def test_the_version_is_that_of_sparks_own_jars():
    made = s3a_settings("s3://lake", {})
    assert made == {"spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{bundled_hadoop()}"}
    assert bundled_hadoop().split(".")[0] == "3"
