"""What Spark, PyIceberg and DuckDB need to reach the catalog of a ref over REST.

`graveler.server.rest_catalog` makes a `RestCatalog` of a branch, also that of a run or a step.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from graveler.base.arguments import expand_home, text
from graveler.config import load_config
from graveler.errors import InvalidInputError
from graveler.reads.view import Ref
from graveler.repository.branch import Branch, fence_of

ICEBERG = "1.12.0"
"""The version of Iceberg's runtime for Spark."""
_SCALA_OF_SPARK: Mapping[str, tuple[str, ...]] = {
    "3.5": ("2.12", "2.13"),
    "4.0": ("2.13",),
    "4.1": ("2.13",),
}
_CORE = re.compile(r"spark-core_([\d.]+)-(.+)\.jar")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_S3 = {
    "s3.endpoint": "endpoint_url",
    "s3.region": "region",
    "s3.access-key-id": "access_key",
    "s3.secret-access-key": "secret_key",
    "s3.session-token": "session_token",
}
_KEYS = frozenset({"s3.access-key-id", "s3.secret-access-key", "s3.session-token"})


@dataclass(frozen=True, slots=True)
class RestCatalog:
    """The catalog of a ref on a server.

    Attributes:
        uri: The address of the catalogs, ``http://host:port/iceberg``.
        warehouse: ``REPOSITORY@REF``; for a branch of a run or a step with its handle, which lets engines
            write to it.
        token: The token of the server, or of a user.
        storage: Properties of the storage, as PyIceberg and Iceberg's own file access call them.
    """

    uri: str
    warehouse: str
    token: str = field(repr=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, view: Branch | Ref, uri: str, token: str) -> "RestCatalog":
        """Return the catalog of a ref on the server at an address, with the lake's access to storage."""
        stores = view.repository
        options = load_config(stores.location).options_of(stores.storage)
        # the keys of a lake that assumes a role give access only through the role
        left_out = _KEYS if options.get("role_arn") else frozenset()
        storage = {
            name: options[option]
            for name, option in _S3.items()
            if options.get(option) and name not in left_out
        }
        return cls(uri, warehouse_of(view), token, storage)

    def spark(
        self,
        name: str = "graveler",
        *,
        spark: str = "",
        scala: str = "",
        jars: str | Path | None = None,
    ) -> dict[str, str]:
        """Return the settings of a Spark session that let it use the catalog.

        Args:
            name: The name of the catalog in SQL.
            spark: The version of Spark; by default that of the installed PySpark.
            scala: Its version of Scala.
            jars: A folder with Iceberg's runtime, which is otherwise fetched by its Maven coordinates.

        Raises:
            InvalidInputError: Iceberg's runtime does not support this Spark.
        """
        packages = [runtime(spark, scala)]
        catalog, on_s3 = f"spark.sql.catalog.{_checked(name)}", bool(self.storage)
        properties = {"type": "rest", "cache-enabled": "false", "rest.auth.type": "oauth2"}
        if on_s3:
            packages.append(f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}")
            properties["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
            properties["client.region"] = self.storage.get("s3.region", "us-east-1")
            properties["s3.path-style-access"] = str("s3.endpoint" in self.storage).lower()
        properties |= self._properties()
        own = () if jars is None else sorted(expand_home(jars).glob("*.jar"))
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            **(
                {"spark.jars": ",".join(map(str, own))}
                if own
                else {"spark.jars.packages": ",".join(packages)}
            ),
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{catalog}.{key}": value for key, value in properties.items()},
        }

    def pyiceberg(self) -> dict[str, str]:
        """Return the properties for ``pyiceberg.catalog.load_catalog``."""
        return {"type": "rest", **self._properties()}

    def environment(self) -> dict[str, str]:
        """Return the variables with which ``load_catalog("graveler")`` finds it in another process."""
        given = {"type": "rest", **self._properties()}
        return {
            "PYICEBERG_CATALOG__GRAVELER__"
            + key.replace(".", "__").replace("-", "_").upper(): value
            for key, value in given.items()
        }

    def duckdb(self, name: str = "graveler") -> str:
        """Return the statements with which DuckDB attaches the catalog; `iceberg` and `httpfs` are loaded."""
        statements = [
            f"create or replace secret {_checked(name)} (type iceberg, token {_quoted(self.token)})",
            f"attach {_quoted(self.warehouse)} as {name} (type iceberg, endpoint {_quoted(self.uri)}, "
            f"secret {name}, access_delegation_mode 'none')",
        ]
        if self.storage:
            endpoint = self.storage.get("s3.endpoint", "")
            given = {
                "key_id": self.storage.get("s3.access-key-id", ""),
                "secret": self.storage.get("s3.secret-access-key", ""),
                "session_token": self.storage.get("s3.session-token", ""),
                "region": self.storage.get("s3.region", ""),
                "endpoint": endpoint.partition("://")[2],
                "url_style": "path" if endpoint else "",
                "use_ssl": "false" if endpoint.startswith("http://") else "",
            }
            options = ", ".join(f"{key} {_quoted(value)}" for key, value in given.items() if value)
            statements.insert(0, f"create or replace secret {name}_storage (type s3, {options})")
        return "; ".join(statements)

    def _properties(self) -> dict[str, str]:
        return {
            "uri": self.uri,
            "warehouse": self.warehouse,
            "token": self.token,
            "oauth2-server-uri": f"{self.uri}/v1/oauth/tokens",
            "token-refresh-enabled": "false",
            **self.storage,
        }


def warehouse_of(view: Branch | Ref) -> str:
    """Return the warehouse of a ref; that of a branch of this process's run or step has its handle."""
    fence = fence_of(view) if isinstance(view, Branch) else ""
    return f"{view.repository.name}@{view.name}" + (f":{fence}" if fence else "")


def runtime(spark: str = "", scala: str = "") -> str:
    """Return the Maven coordinates of Iceberg's runtime for a version of Spark.

    Args:
        spark: The version, as 4.1.4; by default that of the installed PySpark.
        scala: Its version of Scala.

    Raises:
        InvalidInputError: The runtime does not support this Spark, or none is installed and named.
    """
    here = ("", "") if spark else _installed()
    spark, scala = text(spark, "spark", empty=True) or here[1], scala or here[0]
    line = ".".join(spark.split(".")[:2])
    known = _SCALA_OF_SPARK.get(line, ())
    scala = scala or (known[0] if known else "")
    if scala not in known:
        supported = "; ".join(
            f"{each} (Scala {' or '.join(of)})" for each, of in _SCALA_OF_SPARK.items()
        )
        raise InvalidInputError(
            f"Spark {spark or 'of no version'}{scala and f' with Scala {scala}'}: Iceberg's runtime {ICEBERG} "
            f"supports Spark {supported}: install one of these, as `pip install 'pyspark==4.1.*'`"
        )
    return f"org.apache.iceberg:iceberg-spark-runtime-{line}_{scala}:{ICEBERG}"


def _installed() -> tuple[str, str]:
    """Return the versions of Scala and Spark of the installed PySpark, or nothing."""
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    found = (_CORE.fullmatch(jar.name) for jar in folder.glob("spark-core_*.jar"))
    return next(((match[1], match[2]) for match in found if match), ("", ""))


def _checked(name: str) -> str:
    if not _NAME.fullmatch(text(name, "name")):
        raise InvalidInputError(
            f"name={name!r}: engines use it in SQL: give letters, digits and underscores"
        )
    return name


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
