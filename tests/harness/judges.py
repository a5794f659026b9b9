"""The gate that these tests refuse hours by."""

from graveler.gates import gate


@gate(prefix="input/")
def no_bad_file(candidate):
    """Refuses what would bring a file that says that it is bad."""
    bad = [
        change.path
        for change in candidate.changes("input/")
        if change.after is not None and change.path.endswith(".bad")
    ]
    return f"bad files: {', '.join(bad[:3])}" if bad else None
