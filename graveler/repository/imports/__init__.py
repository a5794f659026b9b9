"""Importing entries of many files that are already in a store, by a listing or an inventory."""

from graveler.repository.imports.importer import Imported, import_files, source_of, source_text

__all__ = ["Imported", "import_files", "source_of", "source_text"]
