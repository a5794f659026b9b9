"""``graveler splitting show`` and ``set``: their output for people and for programs."""


def test_sizes_are_given_as_for_a_simulation(cli, history):
    said = cli("splitting", "set", "--policy", "hash", "--max-bytes", "5MiB", "--json")
    assert (said.json["policy"], said.json["max_bytes"]) == ("hash", 5 << 20)
    said = cli("splitting", "set", "--max-bytes", 6_000_000_000, "--min-bytes", "1.5 MiB")
    assert "max_bytes   6000000000\n" in said.out
    assert cli("splitting", "show").out == said.out
    policy = "hash,max_bytes=6000000000,min_bytes=1.5MiB"
    simulated = cli("splitting", "simulate", "--branch", "main", "--policy", policy)
    assert simulated.code == 0
