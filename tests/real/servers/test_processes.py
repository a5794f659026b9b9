from itertools import islice
from pathlib import Path
from random import Random

import pytest

from graveler.errors import LakeLockedError
from graveler.kv.registry import open_kv
from tests.harness.workers import StartWorker

PROCESSES = 4
INCREMENTS = 200
KILLS = 20


@pytest.fixture
def sqlite_uri(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/new/kv.sqlite3"


@pytest.fixture
def rocksdb_uri(tmp_path: Path) -> str:
    return f"rocksdb://{tmp_path}/new/kv"


@pytest.mark.parametrize("uri", ["sqlite_uri", "postgres_url", "mysql_url"])
def test_processes_lose_no_increment(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    with open_kv(request.getfixturevalue(uri)) as store:
        store.set("p", b"counter", b"0")
        workers = [
            start_worker("increment", request.getfixturevalue(uri), str(INCREMENTS))
            for _ in range(PROCESSES)
        ]
        assert [worker.communicate(timeout=60) for worker in workers] == [("", "")] * PROCESSES
        stored = store.get("p", b"counter")
        assert stored is not None
        assert int(stored.value) == PROCESSES * INCREMENTS


@pytest.mark.parametrize("uri", ["sqlite_uri", "postgres_url", "mysql_url"])
def test_processes_may_make_a_new_store_at_once(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    workers = [start_worker("hold", request.getfixturevalue(uri)) for _ in range(PROCESSES)]
    assert [worker.communicate(timeout=60) for worker in workers] == [("open\n", "")] * PROCESSES


@pytest.mark.parametrize("uri", ["sqlite_uri", "postgres_url", "mysql_url"])
def test_one_process_at_a_time_has_the_turn(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    with open_kv(request.getfixturevalue(uri)) as store:
        store.set("p", b"counter", b"0")
        workers = [
            start_worker("take_turns", request.getfixturevalue(uri), "50") for _ in range(PROCESSES)
        ]
        assert [worker.communicate(timeout=60) for worker in workers] == [("", "")] * PROCESSES
        stored = store.get("p", b"counter")
        assert stored is not None
        assert int(stored.value) == PROCESSES * 50


@pytest.mark.crash
@pytest.mark.parametrize("uri", ["sqlite_uri", "postgres_url", "mysql_url"])
def test_the_turn_of_a_process_that_dies_is_free(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    address = request.getfixturevalue(uri)
    with open_kv(address) as store, open_kv(address) as impatient:
        holder = start_worker("keep_turn", address)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "had\n"
        with impatient.turn("counter", 0.01) as had:
            assert not had
        holder.kill()
        with store.turn("counter", 60) as had:
            assert had


@pytest.mark.parametrize("uri", ["sqlite_uri", "postgres_url", "mysql_url"])
def test_a_fork_within_a_turn_leaves_it_to_the_parent(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    worker = start_worker("fork_in_turn", request.getfixturevalue(uri))
    output, errors = worker.communicate(timeout=60)
    assert errors == ""
    # after a request that timed out, a server gives the process no turns for a minute
    assert sorted(output.splitlines()) == [
        f"child, after: {uri == 'sqlite_uri'}",
        "child, within: False",
        "parent, after: True",
    ]
    assert worker.returncode == 0


@pytest.mark.crash
@pytest.mark.parametrize("uri", ["sqlite_uri", "rocksdb_uri"])
def test_what_was_acknowledged_survives_the_death_of_its_writer(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    random = Random(20131)
    address = request.getfixturevalue(uri)
    acknowledged = -1
    for _ in range(KILLS):
        # The killed writer may have written more than it could report.
        writer = start_worker("write", address, str(acknowledged + 2))
        assert writer.stdout is not None
        assert writer.stderr is not None
        reports = list(islice(writer.stdout, random.randint(1, 30)))
        writer.kill()
        last = int([*reports, *writer.stdout][-1])
        assert writer.stderr.read() == ""
        writer.wait()
        with open_kv(address) as store:
            for number in range(acknowledged + 2, last + 1):
                key = b"%08d" % number
                for partition in ("set_if", "set"):
                    stored = store.get(partition, key)
                    assert stored is not None, (partition, number)
                    assert stored.value == key
                found = list(islice(store.scan("set_many", key), 5))
                assert found == [(key + b"%d" % part, key) for part in range(5)]
        acknowledged = last
    with open_kv(address) as store:
        assert len(list(store.scan("set"))) >= acknowledged - KILLS


@pytest.mark.parametrize(
    ("uri", "refusals"),
    [
        ("sqlite_uri", ("outcome-unknown", "backend-unavailable")),
        ("rocksdb_uri", ("storage-full", "storage-full")),
    ],
)
def test_a_conditional_write_on_a_failing_disk_is_named(
    uri: str, refusals: tuple[str, str], request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    output, errors = start_worker("overflow", request.getfixturevalue(uri)).communicate(timeout=60)
    first, second = output.splitlines()
    acknowledged, told = first.split()
    assert (told, second) == refusals
    assert "Traceback" not in errors  # closing may warn, but does not fail
    with open_kv(request.getfixturevalue(uri)) as store:
        keys = [key for key, _ in store.scan("p")]
    expected = [b"%06d" % number for number in range(int(acknowledged) + 1)]
    assert keys in (expected, expected[:-1])


def test_rocksdb_lets_one_process_in(rocksdb_uri: str, start_worker: StartWorker) -> None:
    holder = start_worker("hold", rocksdb_uri)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    folder = rocksdb_uri.removeprefix("rocksdb://")
    with pytest.raises(LakeLockedError, match=f"{folder}.*one process.*use SQLite or PostgreSQL"):
        open_kv(rocksdb_uri)
    holder.kill()
    holder.wait()
    with open_kv(rocksdb_uri) as store:
        store.set("p", b"k", b"v")


@pytest.mark.parametrize(
    ("uri", "child"),
    [
        ("sqlite_uri", "[b'child', b'parent'] by its own connection"),
        ("postgres_url", "[b'child', b'parent'] by its own connection"),
        ("mysql_url", "[b'child', b'parent'] by its own connection"),
        ("rocksdb_uri", "lake-locked"),
    ],
)
def test_a_fork_leaves_the_parents_store_whole(
    uri: str, child: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    parent = (
        "[(b'parent', b'after')]"
        if child == "lake-locked"
        else "[(b'child', b'was here'), (b'parent', b'after')]"
    )
    worker = start_worker("fork", request.getfixturevalue(uri))
    output, errors = worker.communicate(timeout=60)
    assert errors == ""
    assert output == f"child: {child}\nparent: {parent}\n"
    assert worker.returncode == 0


@pytest.mark.parametrize("uri", ["sqlite_uri", "postgres_url", "mysql_url"])
def test_a_child_forked_while_others_write_can_write(
    uri: str, request: pytest.FixtureRequest, start_worker: StartWorker
) -> None:
    worker = start_worker("fork_beside_writers", request.getfixturevalue(uri), "30")
    assert worker.communicate(timeout=250) == ("{0} 30\n", "")
    assert worker.returncode == 0
