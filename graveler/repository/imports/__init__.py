"""Importing entries of many files that are already in a store, by a listing or an inventory."""
