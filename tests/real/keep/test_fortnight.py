"""A fortnight of a pipeline whose storage is Keep, at speed: runs fail, servers are lost and replaced."""

from datetime import timedelta

from graveler.keep.locators import Locator
from graveler.testing import World
from tests.harness.keep_system import System


def a_day(system, repo, world):
    """Run 24 hours, of which three fail; lose and replace servers. Return the failed and the others."""
    failed, published = {}, {}
    for hour in range(24):
        path, content = f"input/2013/01/01/{hour:02}:00/part-0.csv", b"%d\n" % hour * 5_000
        if hour == 8:
            system.start("b", system.lose("b"))
        if hour == 16:
            system.sweep()
            system.lake.keep.remove_server("main", system.lose("d"))
            system.start("f")
        try:
            with repo.run(f"hour {hour}", into="main") as run:
                run.put(path, content)
                run.commit("part")
                if hour in {3, 9, 14}:
                    raise LookupError(hour)
            published[path] = content
        except LookupError:
            failed[hour] = path, content
        world.clock.advance(hours=1)
        if hour % 6 == 5:
            system.sweep()
    return failed, published


def swept_until_gone(system, world, blocks):
    """Sweep until no server has any of the blocks, and return when each one went."""
    gone = {}
    for _ in range(160):
        world.clock.advance(hours=6)
        assert not system.sweep().lost
        now = world.clock.now()
        for name, locator in blocks.items():
            if name not in gone and not system.copies(locator):
                gone[name] = now
        if len(gone) == len(blocks):
            break
    return gone


def test_a_fortnight_of_runs_on_servers_that_are_lost(tmp_path, monkeypatch):
    """Published bytes keep their copies; those of failed runs go after their time, and not before."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    world = World()
    lake = world.open()
    system = System(lake, tmp_path, names="abcde", ttl=timedelta(days=7))
    repo = lake.create_repository("flights", storage="keep://main/flights")
    started = world.clock.now()
    failed, published = a_day(system, repo, world)
    world.clock.advance(days=10)  # longer than the time to live
    system.sweep()
    path, content = failed.pop(14)
    with repo.run("hour 14", into="main") as run:
        assert run.get(path) == content
    published[path] = content
    blocks = {hour: Locator.of(content) for hour, (_, content) in failed.items()}
    assert [len(system.copies(each)) for each in blocks.values()] == [2, 2]
    gone = swept_until_gone(system, world, blocks)
    for hour in blocks:
        # parked for two weeks, then reaped, and kept for one time to live
        age = gone[hour] - started - timedelta(hours=hour)
        assert timedelta(days=21) <= age <= timedelta(days=35), hour
    for path, content in published.items():
        assert repo.branch("main").get(path) == content
        assert len(system.copies(Locator.of(content))) == 2, path
    report = system.sweep().report()
    assert "lost" not in report
    assert "keep://main/flights" in report
    for server, _ in system.servers.values():
        server.cut()
    lake.close()
