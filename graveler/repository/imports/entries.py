"""The entries of the files of an import."""

from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.model import Entry
from graveler.repository.imports.found import Found
from graveler.repository.links import LinkRules, Trust


class Entries:
    """Makes the entries of one import.

    Args:
        rules: Which files the repository may link to.
        prefix: Start of the paths: "" or with a slash at its end.
    """

    def __init__(self, rules: LinkRules, prefix: str) -> None:
        self._trust = Trust(rules)
        self._prefix = prefix

    def of(self, found: Found) -> Entry:
        """Return the entry of a file."""
        entry = Entry(
            path=self._prefix + found.path,
            address=found.address,
            size=found.size,
            checksum=found.checksum,
            content_type=found.content_type,
            mtime=found.mtime,
            metadata=found.metadata,
            version=found.version,
        )
        try:
            return self._trust.checked(entry)
        except InvalidInputError as error:
            raise InvalidInputError(f"{found.where}: {error}") from error
        except PermissionDeniedError as error:
            raise PermissionDeniedError(f"{found.where}: {error}") from error
