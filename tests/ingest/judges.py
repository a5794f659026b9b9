"""The gate that these tests refuse hours by."""

from graveler.gates import gate

__all__ = ["no_bad_file"]


@gate(prefix="input/")
def no_bad_file(candidate):
    """Refuses a tree in which any file says that it is bad."""
    bad = [entry.path for entry in candidate.entries("input/") if entry.path.endswith(".bad")]
    return f"bad files: {', '.join(bad[:3])}" if bad else None
