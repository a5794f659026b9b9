from dataclasses import replace

import graveler


def test_problems_are_told_with_who_needs_them_and_exit_with_1(cli, history):
    entry = history.ref("v1").stat("input/05:00/a.csv")
    history.stores.objects.delete(entry.address)
    said = cli("fsck")
    assert said.code == 1
    uri = history.stores.uri(entry.address)
    assert said.out.splitlines()[:3] == [
        f"object {uri}: is missing",
        "  needed by  dev, main, tag v1",
        "  paths  input/05:00/a.csv",
    ]
    assert said.out.splitlines()[3].startswith("flights: 1 problem; 3 refs, ")
    report = cli("fsck", "--json")
    assert report.code == 1
    assert report.json["sound"] is False
    (problem,) = report.json["repositories"][0]["problems"]
    assert problem == {
        "kind": "object",
        "id": uri,
        "message": "is missing",
        "refs": ["dev", "main", "tag v1"],
        "paths": ["input/05:00/a.csv"],
    }
    assert cli("fsck", "--no-objects").code == 0


def test_every_repository_is_looked_at_unless_one_is_named(cli, history, folder):
    with graveler.open(folder, create=True) as lake:
        other = lake.create_repository("weather")
        entry = other.branch("main").put("a", b"1")
        other.stores.objects.delete(entry.address)
    said = cli("fsck")
    assert said.code == 1
    assert [line.split(":")[0] for line in said.out.splitlines() if "refs" in line] == [
        "flights",
        "weather",
    ]
    assert cli("fsck", "-R", "flights").code == 0


def test_what_a_run_is_about_to_publish_is_looked_at(cli, runs):
    head = runs.commit(runs.runs.get("hour 06").head)
    runs.stores.objects.delete(runs.ref(head.id).stat("output/06:00/a").address)
    runs.runs._records.update(  # the state after a process dies between candidate and publish
        "hour 06", lambda run: replace(run, state="PUBLISHING", candidate=head.id)
    )
    (problem,) = cli("fsck", "--json").json["repositories"][0]["problems"]
    assert problem["refs"] == ["run hour 06", runs.runs.get("hour 06").branch]


def test_a_look_at_checksums_has_a_rate_and_can_be_resumed(cli, history):
    report = cli("fsck", "--checksums", "--json").json
    assert report["sound"] is True
    assert report["repositories"][0]["hashed"] > 0
    for rate in ("50MB/s", "200 MiB/s", "1.5GB", "100000", "9kb/s"):
        assert cli("fsck", "--checksums", "--resume", "--rate", rate).out.startswith(
            "flights: sound; 3 refs, "
        )
