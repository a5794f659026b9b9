"""The places of all acknowledged files: on main, on their way there, or in quarantine."""

from tests.harness.worlds import tree


def whereabouts(repo, ingestion):
    """Return the places of each path: main, ingest (committed or staged) and quarantines."""
    places: dict[str, list[str]] = {}

    def note(path, place):
        places.setdefault(path, []).append(place)

    main = tree(repo.ref("main"))
    for path in main:
        note(path, "main")
    for path, text in tree(repo.branch(ingestion.name)).items():
        if main.get(path) != text:
            note(path, "ingest")
    for kept in ingestion.quarantined():
        before = tree(repo.ref(f"{kept.head}~1"))
        for path, text in tree(repo.branch(kept.name)).items():
            if before.get(path) != text:
                note(path, kept.name)
    return places


def check_accounts(repo, ingestion, acknowledged, what=""):
    """Fail unless each acknowledged path is in exactly one place, with the written content."""
    places = whereabouts(repo, ingestion)
    for path, text in acknowledged.items():
        assert len(places.get(path, ())) == 1, (path, places.get(path), what)
        (place,) = places[path]
        view = repo.ref("main") if place == "main" else repo.branch(place)
        assert tree(view)[path] == text, (path, place, what)
    strangers = set(places) - set(acknowledged) - {"settled"}
    assert not strangers, (strangers, what)
    check_history(repo, ingestion, what)


def check_history(repo, ingestion, what=""):
    """Fail if a change was published twice or removed twice."""
    published = [
        commit.parents[1]
        for commit in repo.log("main", first_parent=True)
        if "graveler.ingest" in commit.metadata
    ]
    assert len(set(published)) == len(published), what
    off = [
        one
        for commit in repo.log(ingestion.name, first_parent=True)
        for one in commit.metadata.get("graveler.taken-off", "").split(",")
        if one
    ]
    assert len(set(off)) == len(off), what
