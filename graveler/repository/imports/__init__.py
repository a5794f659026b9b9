"""Import: entries of many files that are in a store already, from a listing or from an inventory."""

from graveler.repository.imports.importer import Imported, import_files, source_of, source_text

__all__ = ["Imported", "import_files", "source_of", "source_text"]
