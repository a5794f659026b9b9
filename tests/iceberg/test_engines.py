"""What engines are given: settings, and a server where none runs."""

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

import graveler
from graveler.errors import InvalidInputError
from graveler.iceberg.engines import RestCatalog, runtime
from graveler.server import rest_catalog
from tests.harness.iceberg import TOKEN, catalog_of, delays, rows, token_of, with_table


@pytest.fixture
def main(repo):
    made = catalog_of(repo.branch("main"))
    with_table(made, 1)
    return made


def loaded(catalog):
    return load_catalog("lake", **catalog.pyiceberg())


def test_a_server_runs_for_a_run_where_none_is_named(repo, main):
    with repo.run("hour") as run, rest_catalog(run) as catalog:
        assert catalog.warehouse.startswith(f"flights@{run.branch}:")
        with loaded(catalog) as client:
            client.load_table("db.flights").append(rows(2))
            with run.step("more") as step, rest_catalog(step) as of_step:
                with loaded(of_step) as other:
                    other.load_table("db.flights").append(rows(3))
            assert delays(client) == [1, 2, 3]
    assert delays(main) == [1, 2, 3]


def test_the_variables_of_a_step_let_another_process_write_to_it(lake, repo, main):
    with repo.run("hour") as run, run.step("more") as step:
        with graveler.attach(step.environment()) as other, rest_catalog(other) as catalog:
            with loaded(catalog) as client:
                client.load_table("db.flights").append(rows(2))
    assert delays(main) == [1, 2]


def test_a_server_that_runs_is_used(repo, main, server, monkeypatch):
    with rest_catalog(repo.branch("main"), uri=server.iceberg, token=TOKEN) as catalog:
        assert catalog == RestCatalog(server.iceberg, "flights@main", TOKEN)
    monkeypatch.setenv("GRAVELER_ICEBERG", server.iceberg)
    monkeypatch.setenv("GRAVELER_GATEWAY_TOKEN", TOKEN)
    with rest_catalog(repo.ref("main")) as catalog, loaded(catalog) as client:
        assert catalog.uri == server.iceberg
        assert delays(client) == [1]


def test_a_lake_with_users_needs_a_token(lake, repo, main):
    token = token_of(lake, "ann")
    with pytest.raises(InvalidInputError, match="token create"):
        with rest_catalog(repo.branch("main")):
            pass
    with rest_catalog(repo.branch("main"), token=token) as catalog, loaded(catalog) as client:
        client.load_table("db.flights").append(rows(2))
    assert repo.branch("main").head.committer == "ann"


def test_pyiceberg_finds_the_catalog_in_its_environment(repo, main, monkeypatch):
    with rest_catalog(repo.branch("main")) as catalog:
        for name, value in catalog.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        with load_catalog("graveler") as client:
            assert delays(client) == [1]
            assert client.properties["oauth2-server-uri"] == f"{catalog.uri}/v1/oauth/tokens"


@pytest.mark.parametrize(
    ("spark", "scala", "found"),
    [("4.1.4", "", "4.1_2.13"), ("4.0.5", "2.13", "4.0_2.13"), ("3.5", "", "3.5_2.12")],
)
def test_the_runtime_fits_spark(spark, scala, found):
    wanted = f"org.apache.iceberg:iceberg-spark-runtime-{found}:1.12.0"
    assert runtime(spark, scala) == wanted
    catalog = RestCatalog("http://127.0.0.1:1/iceberg", "flights@main", TOKEN)
    assert catalog.spark(spark=spark, scala=scala)["spark.jars.packages"] == wanted


@pytest.mark.parametrize(
    ("spark", "scala", "named"),
    [
        ("4.3.0", "", "Spark 4.3.0: "),
        ("4.1.4", "2.12", "Spark 4.1.4 with Scala 2.12: "),
        ("", "", r"Spark 4.3.0 with Scala 2.13: .* supports Spark 3.5 .*4.1 "),
    ],
)
def test_another_spark_is_refused_by_its_name(spark, scala, named):
    with pytest.raises(InvalidInputError, match=named):
        RestCatalog("http://127.0.0.1:1/iceberg", "flights@main", TOKEN).spark(
            spark=spark, scala=scala
        )


def test_a_name_that_sql_cannot_have_is_refused():
    catalog = RestCatalog("http://127.0.0.1:1/iceberg", "flights@main", TOKEN)
    for name in ("", "my catalog", "a.b", "x'"):
        for settings in (catalog.duckdb, lambda name: catalog.spark(name, spark="4.1")):
            with pytest.raises(InvalidInputError):
                settings(name)


def test_a_token_is_not_shown():
    storage = {"s3.secret-access-key": "hidden"}
    shown = repr(RestCatalog("http://127.0.0.1:1/iceberg", "flights@main", TOKEN, storage))
    assert TOKEN not in shown
    assert "hidden" not in shown
