"""Merges: bases, three-way merges, conflicts as data, previews."""
