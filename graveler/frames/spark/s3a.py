"""Spark's settings for a lake on S3, with the lake's store and credentials.

Hadoop's file system for S3 is called S3A. PySpark's own jars do not include it. Spark fetches it by its
Maven coordinates when the session starts, or loads it from a folder. The settings apply to one bucket, so
that other buckets of the session keep theirs.
"""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from graveler.errors import InvalidInputError, MissingDependencyError

_CREDENTIALS = "org.apache.hadoop.fs.s3a"
_HADOOP = re.compile(r"hadoop-client-api-(.+)\.jar")
_COMMITTER: Mapping[str, str] = {
    "spark.hadoop.fs.s3a.committer.name": "magic",
    "spark.hadoop.fs.s3a.committer.magic.enabled": "true",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": (
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
    ),
}


def s3a_settings(
    storage: str, options: Mapping[str, str], *, jars: Path | None = None, hadoop: str = ""
) -> dict[str, str]:
    """Return Spark's settings for the storage of a repository; none if it is not on S3."""
    scheme, _, rest = storage.partition("://")
    if scheme not in {"s3", "s3a", "s3n"}:
        return {}
    bucket = f"spark.hadoop.fs.s3a.bucket.{rest.partition('/')[0]}"
    settings = {f"{bucket}.{name}": value for name, value in _store(options).items() if value}
    return settings | _jars(jars, hadoop)


def _store(options: Mapping[str, str]) -> dict[str, str]:
    endpoint = options.get("endpoint_url", "")
    style = options.get("path_style") or ("true" if endpoint else "")
    return {
        "endpoint": endpoint,
        # S3A asks AWS for the region of a bucket, and other stores do not answer
        "endpoint.region": options.get("region") or ("us-east-1" if endpoint else ""),
        "path.style.access": style,
        "connection.ssl.enabled": "false" if endpoint.startswith("http://") else "",
        **_keys(options),
    }


def _keys(options: Mapping[str, str]) -> dict[str, str]:
    """Return the credentials; none if the usual AWS settings have them."""
    keys = {
        "access.key": options.get("access_key", ""),
        "secret.key": options.get("secret_key", ""),
        "session.token": options.get("session_token", ""),
    }
    if options.get("external_id"):
        raise InvalidInputError(
            "external_id: S3A assumes no role by it: start the session with temporary credentials of "
            "the role, in the usual AWS settings"
        )
    if role := options.get("role_arn"):
        provider = f"{_CREDENTIALS}.auth.AssumedRoleCredentialProvider"
        return {**keys, "assumed.role.arn": role, "aws.credentials.provider": provider}
    if not keys["access.key"]:
        return {}
    kind = "Temporary" if keys["session.token"] else "Simple"
    return {**keys, "aws.credentials.provider": f"{_CREDENTIALS}.{kind}AWSCredentialsProvider"}


def _jars(folder: Path | None, hadoop: str) -> dict[str, str]:
    found = sorted(folder.glob("*.jar")) if folder is not None else []
    if folder is not None and not found:
        raise InvalidInputError(f"jars={str(folder)!r}: there is no jar in this folder")
    names = " ".join(jar.name for jar in found)
    settings = {"spark.jars": ",".join(map(str, found))} if found else {}
    if "hadoop-aws-" not in names:
        version = hadoop or bundled_hadoop()
        settings["spark.jars.packages"] = f"org.apache.hadoop:hadoop-aws:{version}"
    return {**settings, **(_COMMITTER if "spark-hadoop-cloud_" in names else {})}


def bundled_hadoop() -> str:
    """Return the version of Hadoop in PySpark's jars; S3A must have the same version."""
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    for jar in folder.glob("hadoop-client-api-*.jar"):
        if match := _HADOOP.fullmatch(jar.name):
            return match[1]
    raise MissingDependencyError(
        f"no hadoop-client-api in {folder}: S3A must have the version of Spark's Hadoop: give a "
        "folder with hadoop-aws of that version as `jars`"
    )
