"""The gate with which tests refuse hours."""

from graveler.gates import gate


@gate(prefix="input/")
def no_bad_file(candidate):
    """Refuse a candidate with a file whose content says that it is bad."""
    bad = [
        change.path
        for change in candidate.changes("input/")
        if change.after is not None and change.path.endswith(".bad")
    ]
    return f"bad files: {', '.join(bad[:3])}" if bad else None
