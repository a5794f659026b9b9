"""Victims are killed at random moments and at named points. Acknowledged changes survive."""

import pytest

from tests.real.torture.__main__ import main
from tests.real.torture.databases import rack, settled
from tests.real.torture.lakes import Place
from tests.real.torture.loop import Tally, Torture

CYCLES = 15
"""`make torture` has as many as wanted."""


def assert_nothing_lost(tally):
    assert not tally.lost, tally.story
    assert tally.cycles == CYCLES
    assert tally.killed > CYCLES // 2
    assert tally.found == tally.acknowledged > CYCLES // 2


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("driver", ["sqlite", "rocksdb"])
def test_kills_lose_nothing_that_was_acknowledged(driver, tmp_path):
    with rack(driver, tmp_path) as on:
        assert_nothing_lost(Torture(on.place, "the suite").run(CYCLES))


@pytest.mark.slow
@pytest.mark.crash
def test_kills_beside_postgresql_lose_nothing(postgres_url, tmp_path):
    place = Place(str(tmp_path), postgres_url)
    victims = Torture(place, "the suite", settle=lambda: settled(postgres_url))
    assert_nothing_lost(victims.run(CYCLES))


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.usefixtures("postgres_socket")  # this stops a second server
def test_a_postgresql_stopped_under_its_clients_loses_nothing(tmp_path):
    with rack("postgres", tmp_path) as on:
        victims = Torture(on.place, "stopped", settle=on.settle, disturb=on.disturb, disturbs=0.5)
        tally = victims.run(8)
    assert not tally.lost, tally.story
    assert tally.disturbed  # in about every second cycle
    assert tally.found == tally.acknowledged > 4


@pytest.mark.crash
@pytest.mark.parametrize("forgets", ["set", "set_many", "set_if", "delete_if", "flushes"])
def test_a_store_that_forgets_what_it_acknowledged_is_found_out(forgets, tmp_path):
    tally = Tally()
    # victims seldom delete, and one that dies without a reply was promised nothing
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        with rack("sqlite", folder) as on:
            tally = Torture(on.place, f"a liar {number}", forgets=forgets).run(40)
        if tally.lost:
            break
    assert tally.lost == 1
    # the seed of the deceived victim, or of all victims if only the last check detects it
    assert "of seed 'a liar" in tally.story


@pytest.mark.crash
def test_the_program_says_what_it_did_and_exits_accordingly(capsys):
    assert main(["2", "sqlite", "--seed", "x"]) == 0
    heads, row = capsys.readouterr().out.splitlines()[1:3]
    said = dict(zip(heads.split(), row.split(), strict=True))
    assert (said["driver"], said["cycles"], said["lost"]) == ("sqlite", "2", "0")
    assert said["found"] == said["acknowledged"]
