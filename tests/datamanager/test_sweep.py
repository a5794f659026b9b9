"""A sweep: the order of its calls, its stops, and days of a cluster whose servers come and go."""

from dataclasses import replace

import pytest

from graveler.base.records import Schema
from graveler.datamanager.sweep import Receipt, Sweep
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StateError,
    StorageFullError,
)
from graveler.keep.locators import Locator
from tests.datamanager.cluster import TTL, Cluster

DAY = 86_400
FOO, BAR = (str(Locator.of(text)) for text in (b"foo", b"bar"))


def blocks(name, count):
    return [str(Locator.of(f"{name} {at}".encode())) for at in range(count)]


@pytest.fixture
def cluster():
    """Return 4 servers: foo on all of them, bar on one, both wanted twice, all old."""
    cluster = Cluster()
    for _ in range(4):
        cluster.add()
    cluster.write("lab/1", [FOO], wanted=4)
    cluster.write("lab/1", [BAR], wanted=1)
    cluster.clock.sleep(TTL + DAY)
    return cluster


def sent(cluster, name):
    return sum(len(getattr(server, name)) for server in cluster.servers)


def test_a_sweep_pulls_and_trashes(cluster):
    receipt, _ = cluster.sweep(force=True)
    names = [name for _, name in cluster.calls]
    assert {name: names.count(name) for name in names} == {
        **dict.fromkeys(("receipts", "clear", "index", "send_pulls", "send_trash"), 4),
        "mounts": 8,
        **dict.fromkeys(("read", "newer"), 1),
    }
    first = {name: names.index(name) for name in names}
    assert sorted(first, key=first.__getitem__)[2:] == [
        *("clear", "index", "read", "newer", "send_pulls", "send_trash")
    ]
    assert names.index("index") > 4 + names.index("clear")
    assert len(names) - names[::-1].index("send_pulls") == names.index("send_trash")
    assert (receipt.trash.sent, receipt.trash.deferred, receipt.trash.bytes) == (2, 0, 6)
    assert receipt.pulls.sent == sent(cluster, "pulls") > 0
    assert receipt.states["overreplicated"].copies == 4
    assert Schema(Receipt, "receipt").decode(Schema(Receipt).encode(receipt)) == receipt


def test_lists_are_cleared_once_for_each_topology(cluster):
    receipt, _ = cluster.sweep()
    again, _ = cluster.sweep(last=receipt.topology)
    assert (receipt.cleared, again.cleared) == (True, False)
    cluster.servers[0].views[0]["allow_write"] = False
    changed, _ = cluster.sweep(last=again.topology)
    assert changed.cleared
    assert [name for _, name in cluster.calls].count("clear") == 8


def test_receipts_of_the_lists_before_are_kept(cluster):
    cluster.sweep(force=True)
    receipt, _ = cluster.sweep()
    assert sum(each["trash"] for each in receipt.earlier.values()) == 2


@pytest.mark.parametrize("settings", [{"dry_run": True}, {"limits": (0, 0)}])
def test_a_dry_run_sends_nothing(cluster, settings):
    receipt, plan = cluster.sweep(force=True, **settings)
    assert not {"send_pulls", "send_trash"} & {name for _, name in cluster.calls}
    assert ("clear" in {name for _, name in cluster.calls}) == ("limits" in settings)
    assert (receipt.trash.sent, receipt.trash.deferred) == (0, 2)
    assert receipt.pulls.deferred == len(plan.pulls) > 0


def test_the_report_has_copies_by_class_and_those_dated_ahead(cluster):
    server = cluster.servers[3]
    cluster.volumes[server.views[0]["uuid"]][FOO] = cluster.clock.ns() + 2 * DAY * 10**9
    receipt, _ = cluster.sweep(force=True)
    assert "class default: 4 copies wanted, 5 present, 1 missing, 2 surplus" in receipt.report()
    assert f"server {server.uuid}: 1 copies are dated more than a day ahead" in receipt.report()
    assert FOO not in {item["locator"] for item in server.trash}
    cluster.clock.sleep(DAY)
    assert cluster.sweep(force=True)[0].ahead == {}


def test_limits_are_for_each_server(cluster):
    for each in blocks("more", 40):
        cluster.write("lab/1", [each], wanted=4)
    cluster.clock.sleep(TTL + DAY)
    receipt, _ = cluster.sweep(force=True, limits=(1, 3))
    assert [len(server.trash) for server in cluster.servers] == [3] * 4
    assert (receipt.trash.sent, receipt.trash.deferred) == (12, 82 - 12)


def test_a_prefix_leaves_all_other_blocks_alone(cluster):
    receipt, _ = cluster.sweep(prefix="ac", force=True)
    assert (receipt.trash.sent, receipt.pulls.sent) == (2, 0)
    for prefix in ("123ABC", "123xyz", "a" * 33):
        with pytest.raises(InvalidInputError, match="0-9 and a-f"):
            cluster.sweep(prefix=prefix)


def failing(name, error):
    def arrange(cluster):
        cluster.servers[2].failing[name] = error

    return arrange


def down(cluster):
    cluster.servers[2].up = False


def without_end(cluster):
    cluster.servers[2].index = lambda volume, prefix: iter([f"{FOO} 1\n".encode()])


def with_a_bad_line(cluster):
    cluster.servers[2].index = lambda volume, prefix: iter([b"foo\n\n"])


def of_another_prefix(cluster):
    cluster.servers[2].index = lambda volume, prefix: iter([f"{BAR} 1\n\n".encode()])


def one_device(cluster):
    cluster.servers[2].views[0]["device_id"] = cluster.servers[1].views[0]["device_id"]


def copied_folder(cluster):
    cluster.servers[2].views.append({**cluster.servers[1].views[0]})


def no_live_blocks(cluster):
    cluster.needed = {"lab/1": set()}


def bad_mounts(cluster):
    del cluster.servers[2].views[0]["allow_trash"]


def unreadable_roots(cluster):
    def read():
        raise CorruptionError("a range is damaged")

    cluster.read = read


STOPS = [
    (down, BackendUnavailableError, r"server zzzzz-bi6l4-0+2 \(http://002:25107\): no answer"),
    (failing("mounts", PermissionDeniedError("not an admin")), PermissionDeniedError, "0002"),
    (failing("receipts", BackendUnavailableError("gone")), BackendUnavailableError, "0002"),
    (failing("clear", BackendUnavailableError("gone")), BackendUnavailableError, "0002"),
    (failing("index", BackendUnavailableError("gone")), BackendUnavailableError, "0002"),
    (without_end, BackendUnavailableError, "ends after line 1 without the blank line"),
    (with_a_bad_line, CorruptionError, "line 1, which is not the line of a block"),
    (of_another_prefix, CorruptionError, "of another prefix than 'ac'"),
    (one_device, StateError, "'device-.*' is volume .* and volume .* of server"),
    (copied_folder, StateError, r"0001 \(http.+\) and .+0002 \(http.+\) both have volume"),
    (bad_mounts, CorruptionError, "a mount of server .*0002.* 'allow_trash' is missing"),
    (no_live_blocks, StateError, "none of 1 sources names a block"),
    (unreadable_roots, CorruptionError, "a range is damaged"),
]


@pytest.mark.parametrize(("arrange", "error", "message"), STOPS)
def test_a_stop_sends_no_list(cluster, arrange, error, message):
    arrange(cluster)
    with pytest.raises(error, match=message):
        cluster.sweep(prefix="ac" if arrange is of_another_prefix else "", force=True)
    assert not {"send_pulls", "send_trash"} & {name for _, name in cluster.calls}


def test_a_failed_pull_list_keeps_trash_back(cluster):
    failing("send_pulls", StorageFullError("no memory"))(cluster)
    with pytest.raises(StorageFullError, match=r"0002.*no copy is trashed"):
        cluster.sweep(force=True)
    assert "send_trash" not in {name for _, name in cluster.calls}


def test_nothing_wanted_is_a_stop(cluster):
    cluster.source = lambda root: replace(Cluster.source(cluster, root), wanted=0)
    with pytest.raises(StateError, match="no block is wanted in any copy"):
        cluster.sweep(force=True)


@pytest.mark.parametrize("settings", [{"replication": 0}, {"servers": []}, {"servers": [0, 0]}])
def test_settings_that_cannot_be_are_refused(cluster, settings):
    servers = [cluster.servers[at] for at in settings.pop("servers", [0])]
    with pytest.raises(InvalidInputError):
        Sweep(servers, cluster, cluster.clock, ttl=TTL, **settings)


def test_much_trash_is_withheld_until_it_is_forced(cluster):
    cluster.servers[0].trash = [{"locator": FOO}]
    receipt, _ = cluster.sweep()
    assert "6 of 15 stored bytes would go, more than 20%" in receipt.withheld
    assert (receipt.trash.sent, receipt.trash.deferred) == (0, 2)
    assert receipt.pulls.sent == sent(cluster, "pulls") > 0
    assert sent(cluster, "trash") == 0  # an older list does not go on either
    assert "trash withheld" in receipt.report()
    assert cluster.sweep(force=True)[0].withheld == ""


def test_a_root_that_comes_during_the_sweep_is_spared(cluster):
    old = blocks("old", 3)
    cluster.write("old/1", old)
    cluster.clock.sleep(TTL + DAY)
    cluster.needed.pop("old/1")
    cluster.late = [cluster.source("new/1", old[:1])]
    receipt, _ = cluster.sweep(force=True)
    assert receipt.spared == 2
    assert {item["locator"] for s in cluster.servers for item in s.trash} == {FOO, *old[1:]}


def test_a_view_that_cannot_write_is_not_a_second_copy(cluster):
    view = cluster.servers[0].views[0]
    cluster.servers[1].views.append({**view, "allow_write": False, "allow_trash": False})
    receipt, plan = cluster.sweep(force=True)
    assert receipt.states["overreplicated"].copies == 4
    assert [mount.volume for mount in plan.mounts].count(view["uuid"]) == 1


def test_explain_names_each_place_and_its_reason(cluster):
    sweep = Sweep(cluster.servers, cluster, cluster.clock, ttl=TTL)
    lines = sweep.explain(Locator.parse(FOO))
    assert lines == sweep.explain(Locator(FOO[:32], None))
    assert lines[:2] == [
        f"{FOO} is overreplicated",
        "wanted: 2 in class default; needed by lab/1",
    ]
    assert [line.partition("; ")[2] for line in lines[2:]] == [
        *["stay: chosen for default"] * 2,
        *["trash: not needed here, and old enough"] * 2,
    ]
    assert {name for _, name in cluster.calls} == {"mounts", "index", "read"}
    with pytest.raises(ObjectNotFoundError, match="no server has a copy"):
        sweep.explain(Locator.of(b"never"))


def test_a_server_that_drains_gives_its_copies_to_the_others():
    cluster = Cluster()
    for _ in range(4):
        cluster.add()
    everything = blocks("all", 60)
    cluster.write("lab/1", everything)
    draining = cluster.servers[1]
    for _ in range(3):
        cluster.clock.sleep(TTL + DAY)
        cluster.sweep(draining=[draining.uuid], force=True)
        cluster.work()
        assert min(map(cluster.copies, everything)) >= 2
    assert cluster.volumes[draining.views[0]["uuid"]] == {}


def lose(cluster, at):
    """Let a server die, which stops the sweeps until it is replaced."""
    cluster.servers[at].up = False
    with pytest.raises(BackendUnavailableError):
        cluster.sweep()
    cluster.add(volumes=2, at=at)


def end(cluster, runs):
    """End the roots of failed runs, whose blocks were all there until now."""
    for run in runs & cluster.needed.keys():
        assert all(map(cluster.copies, cluster.needed.pop(run)))


def test_days_of_five_servers_lost_and_replaced():
    """Two days of hourly runs, two of them failed, and two servers die. A copy that was pulled when
    it was still needed goes one time to live after the pull.
    """
    cluster, failed, last = Cluster(), {"lake/run-10": 12, "lake/run-20": 30}, ""
    for _ in range(5):
        cluster.add(volumes=2)
    written = {f"lake/run-{hour}": blocks(hour, 4) for hour in range(48)}
    for hour in [*range(48), *range(48, 720, 12)]:
        if hour < 48:
            cluster.write(f"lake/run-{hour}", written[f"lake/run-{hour}"])
        if hour in {36, 300}:
            lose(cluster, hour // 100)
        end(cluster, {run for run, ended in failed.items() if (hour - ended) * 3600 >= TTL})
        if hour % 6 == 0:
            receipt, _ = cluster.sweep(last=last)
            last = receipt.topology
            assert (receipt.withheld, receipt.lost) == ("", {})
            cluster.work()
        assert all(map(cluster.copies, set().union(*cluster.needed.values())))
        cluster.clock.sleep(3600 if hour < 48 else 12 * 3600)
    for run, names in written.items():
        assert {cluster.copies(name) for name in names} == {0 if run in failed else 2}
    receipt, plan = cluster.sweep(last=last)
    assert plan.confirmed() == dict.fromkeys(written.keys() - failed.keys(), 2)
    assert "balanced: 184 blocks, 368 copies" in receipt.report()
    assert "lake: 696 bytes, 696 of them alone, 0 as its share" in receipt.report()
