"""Staged writes of a branch: single ones, bundles, copies, links, uploads."""
