"""Calls that make no sense: the exit code, and the words that name the argument and the way out."""

from pathlib import Path

import pytest

import graveler

LONG = "x" * 300
KEPT = "graveler.toml main:x"

USAGE = [
    # the parser
    ("nonsense", 2, ""),
    ("log --nope", 2, ""),
    ("merge one", 2, ""),
    ("commit", 2, ""),
    ("log -n x", 2, ""),
    ("undo main --to 0", 2, ""),
    ("run list --state none", 2, "give one of open, publishing"),
    # files
    ("stat main", 2, "REF:PATH"),
    ("get main", 2, "REF:PATH"),
    ("rm main", 2, "REF:PATH"),
    ("put missing.csv main:x", 2, "missing.csv"),
    ("put . main:x", 2, "-r"),
    (f"put {KEPT} -r", 2, "without -r"),
    ("put graveler.toml a/x", 2, "or :PATH on the default branch"),
    ("put - a/x", 2, "or :PATH on the default branch"),
    ("put - main:folder/", 2, "give the standard input a file name"),
    (f"put {KEPT} --meta nothing", 2, "NAME=VALUE"),
    (f"put {KEPT} --delete", 2, "--delete: only with -r"),
    (f"put {KEPT} --no-follow-links", 2, "--no-follow-links: only"),
    ("put -r . a/x", 2, "or :PATH on the default branch"),
    ("get main:readme.txt --json", 2, "name a FILE"),
    ("get main:readme.txt no/such/file", 2, "cannot write"),
    ("get main:x out --exclude x --threads 2", 2, "--exclude, --threads: only"),
    ("get -r a/x out", 2, "or :PATH on the default branch"),
    ("get -r main:input", 2, "name the FOLDER"),
    ("get -r main:readme.txt out", 2, "get it without -r"),
    ("get -r main:input out --threads 65", 2, "64"),
    ("get -r main:nowhere out", 1, "nowhere"),
    ("rm main:input", 1, "-r removes"),
    ("cp main:input/ dev:x", 2, "-r"),
    ("cp main dev:x", 2, "-r"),
    ("cp main:readme.txt docs/x", 2, "or :PATH on the default branch"),
    ("mv main:readme.txt dev:x", 2, "graveler cp"),
    ("mv main:readme.txt dev", 2, "graveler cp"),
    ("mv main:readme.txt main", 2, "names no path"),
    ("mv main:readme.txt docs/x", 2, "or :PATH"),
    # history
    ("commit dev:t/ main:y -m no", 2, "name one branch"),
    ("commit dev :y -m no", 2, "name one branch"),
    ("merge dev main --strategy ours", 2, "source-wins"),
    ("merge dev main --strategy a=ours", 2, "source-wins"),
    ("merge dev main --strategy =source-wins", 2, "source-wins"),
    ("log main a --prefix b", 1, "prefix"),
    ("log --since yesterday", 1, "ISO 8601"),
    ("refs restore nowhere", 2, ""),
    # rules and checks
    ("gc keep", 2, "give --days, --count or both, or --everything"),
    ("gc keep --everything --days 1", 2, "give --days, --count or both"),
    ("gc keep --count 0", 1, "count=0: give a whole number from 1 on"),
    ("gc mark --window 7", 2, "--window '7': give a number and d, h, m or s"),
    ("gc run --grace -1d", 2, "--grace '-1d': give a number"),
    ("packing set", 2, "give --after, --branch or both"),
    ("packing set --after -1", 2, "--after"),
    ("fsck --checksums --rate fast", 2, "--rate 'fast'"),
    ("fsck --checksums --rate 0MB/s", 2, "--rate '0MB/s'"),
    ("fsck --rate 1MB/s", 2, "--checksums"),
    ("fsck --resume", 2, "--checksums"),
    ("fsck --no-objects --checksums", 2, ""),
    ("links allow s4://bucket", 1, "s4://bucket"),
    ("gates require main", 2, "name a built-in check"),
    ("gates require main rows", 1, "no built-in check 'rows': there are accepted_values, dbt_"),
    ("gates require main row_count --with at_least", 2, "give NAME=VALUE"),
    ("gates require main row_count --with least=1", 1, "unexpected keyword"),
    ("gates require main row_count --with prefix=2013", 1, "prefix 2013: give text"),
    ("gates require main not_null --with columns=a --with columns=b", 2, "columns is given twice"),
    ("gates require main row_count --severity loud", 1, "severity='loud'"),
    ("gates require main row_count --timeout soon", 2, "--timeout 'soon'"),
    ("gates require main nowhere:check", 1, "takes required gates from no module"),
    ("gates drop main", 1, "main"),
    ("ingest tick --gate rules", 2, "--gate 'rules'"),
    ("ingest tick --gate tests:none", 2, "--gate 'tests:none'"),
    ("ingest tick --gate nowhere:no_bad", 2, "--gate 'nowhere:no_bad'"),
    # splitting
    ("splitting set", 2, "nothing to set"),
    ("splitting set --max-bytes big", 2, "--max-bytes 'big': give a whole number, as in 50000"),
    ("splitting set --raggedness -1", 2, "--raggedness '-1': give a whole number"),
    ("splitting set --max-bytes 1MiB --key-bytes 2MiB", 1, "key_bytes 2097152"),
    ("splitting set --policy other", 1, "give hash or directory"),
    ("splitting simulate", 2, "give one of --pattern, --listing and --branch"),
    ("splitting simulate --pattern hourly --branch main", 2, "give one of"),
    ("splitting simulate --pattern daily", 1, "pattern 'daily': give one of hourly, hourly-large"),
    ("splitting simulate --branch main --files 3", 2, "--files applies to a pattern only"),
    ("splitting simulate --listing none.csv", 1, "listing none.csv: No such file"),
    ("splitting simulate --listing x --every 0", 1, "give a length of time above 0"),
    ("splitting simulate --pattern hourly --policy hash,size=3", 2, "no parameter 'size'"),
    ("splitting simulate --pattern hourly --policy hash,max_bytes", 2, "give NAME=VALUE"),
    ("splitting simulate --pattern hourly --policy hash,min_bytes=5MiB", 2, "min_bytes 5242880"),
    # programs
    ("run exec -- true", 2, "no run is named"),
    ("run exec --run hour -- true", 2, "no step is named"),
    ("run exec --run { --step x -- true", 1, "not a run handle"),
    ("run publish --run hour --gate no_such_gate", 2, "no_such_gate"),
    ("gateway --host 0.0.0.0", 1, "give a token"),
    ("gateway --token short", 1, "a token of 5 characters"),
    (f"gateway --token grav-of-the-tests --token-file {__file__}", 2, "give one of them"),
    ("gateway --port 65536", 2, "65535"),
    ("init new --kv nosql://x", 1, "nosql"),
    ("init new --storage ftp://host/x", 1, "ftp"),
    # a path that the system cannot hold
    *(
        (each, None, "")
        for each in (
            f"refs dump {LONG}",
            f"refs restore {LONG}",
            f"get main:readme.txt {LONG}",
            f"get -r main: {LONG}",
            f"put {LONG} main:a",
            f"put -r {LONG} main:a",
            f"import {LONG} main:a",
            f"demo {LONG}",
            f"init {LONG}",
            f"--lake {LONG} ls",
        )
    ),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake that all refused calls share, because they change nothing."""
    folder = tmp_path_factory.mktemp("usage") / "lake"
    with graveler.init(folder) as lake:
        repo = lake.create_repository("flights")
        main = repo.branch("main")
        main.put_many({"readme.txt": b"hello", "input/05:00/a.csv": b"a"})
        main.commit("first")
        repo.create_branch("dev")
        repo.runs.open("hour")
        yield lake


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [pytest.param(*row, id=row[0].replace(LONG, "LONG")[:60]) for row in USAGE],
)
def test_a_call_without_sense_is_refused_by_name(cli, lake, monkeypatch, call, code, says):
    monkeypatch.chdir(lake.location)
    for name in ("GRAVELER_LAKE", "GRAVELER_REPO", "GRAVELER_RUN", "GRAVELER_STEP"):
        monkeypatch.delenv(name, raising=False)
    repo = lake.repository("flights")
    before = list(repo.moves(hidden=True)), list(repo.branch("main").uncommitted())
    said = cli(*call.split())
    if code is None:
        assert said.code in {1, 2}
        assert "too long" in said.err or "does not exist" in said.err
    else:
        assert said.code == code
        assert says in said.err
    assert said.out == ""
    assert (list(repo.moves(hidden=True)), list(repo.branch("main").uncommitted())) == before
    assert not Path("out").exists()
