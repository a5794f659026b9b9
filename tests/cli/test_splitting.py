"""``graveler splitting show`` and ``set``: their output for people and for programs."""

import pytest


def test_sizes_are_given_as_for_a_simulation(cli, history):
    said = cli("splitting", "set", "--policy", "hash", "--max-bytes", "5MiB", "--json")
    assert (said.json["policy"], said.json["max_bytes"]) == ("hash", 5 << 20)
    said = cli("splitting", "set", "--max-bytes", 6_000_000_000, "--min-bytes", "1.5 MiB")
    assert "max_bytes   6000000000\n" in said.out
    assert cli("splitting", "show").out == said.out
    policy = "hash,max_bytes=6000000000,min_bytes=1.5MiB"
    simulated = cli("splitting", "simulate", "--branch", "main", "--policy", policy)
    assert simulated.code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "nothing to set"),
        (("--max-bytes", "big"), 2, "--max-bytes 'big': give a whole number, as in 50000 or 4MiB"),
        (("--max-bytes", ""), 2, "--max-bytes '': give a whole number"),
        (("--raggedness", "-1"), 2, "--raggedness '-1': give a whole number"),
        (("--max-bytes", "1MiB", "--key-bytes", "2MiB"), 1, "key_bytes 2097152"),
        (("--policy", "other"), 1, "give hash or directory"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, history, arguments, code, says):
    before = cli("splitting", "show").out
    said = cli("splitting", "set", *arguments)
    assert said.code == code
    assert says in said.err
    assert cli("splitting", "show").out == before
