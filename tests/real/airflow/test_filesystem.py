# mypy: ignore-errors
"""``ObjectStoragePath("grav://…")``: the provider's filesystem on a real lake, and XComs in it."""

import json
import pickle
from types import SimpleNamespace

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.serde import deserialize, serialize

import graveler
from graveler_airflow.storage.filesystem import get_fs
from graveler_airflow.storage.xcom import GravelerXComBackend
from tests.real.airflow.played import final

STAGING = "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend"
HOUR = "input/2026/11/20/15:00"
SECTION = "AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_"


@pytest.fixture(scope="module")
def flights(variables, connect, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    connect("stored", host=str(folder))
    connect("unmounted", host=str(folder / "unmounted"))
    connect("wrong", host="lake")
    variables.setenv("AIRFLOW__CORE__XCOM_BACKEND", STAGING)
    variables.setenv(f"{SECTION}PATH", "grav://stored@flights/dev/xcom/")
    with graveler.open(folder, create=True) as lake:
        flights = lake.create_repository("flights")
        flights.create_branch("dev").put(f"{HOUR}/a.csv", b"a,b")
        flights.branch("dev").commit("a file")
        yield flights


@pytest.fixture
def root(flights):
    return ObjectStoragePath(f"grav://stored@flights/dev/{HOUR}/")


def test_a_path_writes_to_a_branch_and_reads_it_back(flights, root):
    (root / "b.csv").write_text("b")
    assert (root / "b.csv").read_text() == "b"
    assert [change.path for change in flights.branch("dev").uncommitted()] == [f"{HOUR}/b.csv"]
    assert sorted(path.name for path in root.iterdir()) == ["a.csv", "b.csv"]
    assert not (root / "c.csv").exists()
    with pytest.raises(FileNotFoundError):
        (root / "c.csv").read_text()


def test_a_commit_is_read_as_it_was_and_cannot_be_written(flights, root):
    pinned = ObjectStoragePath(f"grav://stored@flights/{flights.commit('dev').id}/{HOUR}/")
    (root / "later.csv").write_text("b")
    assert [path.name for path in pinned.iterdir()] == ["a.csv"]
    assert [path.name for path in pinned.parent.rglob("*.csv")] == ["a.csv"]
    with pytest.raises(OSError, match="only branches can be written"):
        (pinned / "d.csv").write_text("no")


def test_a_path_travels_through_xcom_with_its_connection(root):
    travelled = deserialize(json.loads(json.dumps(serialize(root / "a.csv"))))
    assert travelled.read_text() == "a,b"


def test_a_filesystem_may_have_a_lake_and_needs_no_airflow(flights, root):
    given = get_fs(None, {"lake": flights.stores.location})
    for fs in (given, root.fs):
        assert type(pickle.loads(pickle.dumps(fs))).__name__ == "GravelerFileSystem"
    assert given.cat_file(f"grav://flights/dev/{HOUR}/a.csv") == b"a,b"


ACCESSES = [
    lambda path: path.exists(),
    lambda path: path.is_file(),
    lambda path: path.is_dir(),
    lambda path: list(path.iterdir()),
    lambda path: path.read_text(),
    lambda path: path.write_text("lost"),
    lambda path: path.unlink(missing_ok=True),
]


@pytest.mark.parametrize(
    ("path", "kind", "error"),
    [
        ("unmounted@flights", "ConnectionError", "connection 'unmounted': no lake at "),
        ("wrong@flights", "ConnectionError", "connection 'wrong': the host 'lake' is a relative"),
        ("undefined@flights", "AirflowNotFoundException", "The conn_id `undefined` isn't defined"),
        ("flights", "InvalidPathError", r"which lake\? .*grav://connection@repository/branch/path"),
    ],
)
def test_a_broken_connection_is_an_error_of_every_call(home, flights, path, kind, error):
    for access in ACCESSES:
        with pytest.raises(Exception, match=error) as raised:
            access(ObjectStoragePath(f"grav://{path}/dev/a.csv"))
        assert raised.type.__name__ == kind


def test_the_xcom_backend_that_never_commits_is_refused(flights):
    values = ObjectStoragePath("grav://stored@flights/dev/xcom")
    said = (
        "set .core. xcom_backend to graveler_airflow.storage.xcom.GravelerXComBackend, which comm"
    )
    with final(said):
        (values / "x/return_value").write_bytes(b"{}")


@pytest.fixture
def stored(flights, monkeypatch):
    """Return a function that lets the XCom backend store a value, and returns what it reads."""

    def stored(path="grav://stored@flights/dev/values", compression=""):
        terms = {"THRESHOLD": "0", "PATH": path, "COMPRESSION": compression}
        for name, value in terms.items():
            monkeypatch.setenv(f"{SECTION}{name}", value)
        value = GravelerXComBackend.serialize_value([1, 2], key="k", task_id="t")
        return GravelerXComBackend.deserialize_value(SimpleNamespace(value=value))

    return stored


@pytest.mark.parametrize(
    ("path", "says"),
    [
        *((path, "give grav://connection@repository/branch/folder") for path in ("", "s3://b/v")),
        ("grav://stored@flights", "give grav://connection@repository/branch/folder"),
        ("grav://stored@flights/none/values", "_path = 'grav://stored@flights/.*no branch 'none'"),
        ("grav://stored@flights/main/values", "_path = 'grav://stored@flights/.*protected"),
    ],
)
def test_wrong_settings_of_the_xcom_backend_are_named(flights, stored, path, says):
    flights.protection.add("main")
    with final(says):
        stored(path)


def test_values_can_be_compressed(stored):
    assert [stored(compression=name) for name in ("", "gzip", "zstd")] == [[1, 2]] * 3
    with pytest.raises(AirflowFailException, match=r"give one of \['bz2', 'gzip',"):
        stored(compression="none")
