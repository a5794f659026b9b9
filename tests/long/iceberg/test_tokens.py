"""A token of five seconds: engines exchange it by OAuth, work with it, and are refused when it has ended."""

from datetime import timedelta

import pytest
from pyiceberg.exceptions import OAuthError, UnauthorizedError

import graveler
from graveler.config import load_config
from graveler.iceberg import RestCatalog
from graveler.lake.factory import connect
from graveler.server import Server
from graveler.testing import FakeClock
from tests.harness.iceberg import catalog_of, delays, rows, token_of, with_table
from tests.harness.iceberg_engines import EngineError

DELAYS = "select delay from main.db.flights"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def lake(tmp_path, clock):
    graveler.init(tmp_path / "lake").close()
    with connect(load_config(tmp_path / "lake"), clock=clock) as opened:
        yield opened


def test_a_secret_is_exchanged_and_ends_after_its_life(spark, pyiceberg, lake, repo, clock):
    main = catalog_of(repo.branch("main"))
    with_table(main, 1)
    secret = token_of(lake, "ann", life=timedelta(seconds=5))
    given = {"token": None, "credential": f"ann:{secret}", "token-refresh-enabled": None}
    with Server(lake) as server:
        catalog = RestCatalog.of(repo.branch("main"), server.iceberg, "")
        spark.use("main", catalog, **given)
        client = pyiceberg(catalog, **given)
        spark.sql("insert into main.db.flights values ('05', 2)")
        client.load_table("db.flights").append(rows(3))
        clock.advance(seconds=4)
        assert spark.sql(DELAYS) == [(1,), (2,), (3,)]
        table = client.load_table("db.flights")
        clock.advance(seconds=2)
        head = repo.branch("main").head
        assert head.committer == "ann"
        for statement in (DELAYS, "insert into main.db.flights values ('05', 4)"):
            with pytest.raises(EngineError, match="NotAuthorizedException"):
                spark.sql(statement)
        with pytest.raises((UnauthorizedError, OAuthError)):
            table.append(rows(5))
        with pytest.raises(EngineError, match="NotAuthorizedException"):
            spark.use("late", catalog, **given)
            spark.sql("select * from late.db.flights")
    assert repo.branch("main").head == head
    assert delays(main) == [1, 2, 3]
