"""Times as commits and paths spell them, always in UTC."""

from datetime import UTC, datetime

from graveler.names import hour_folder as folder_name

__all__ = ["hour_folder", "hour_text"]


def hour_text(moment: datetime) -> str:
    """Return a time as the metadata of commits has it: ``2013-01-01T05:00Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def hour_folder(moment: datetime) -> str:
    """Return the folder of a time: ``2013/01/01/05:00/``."""
    return f"{folder_name(moment)}/"
