"""Keep: a content-addressed store of blocks, after the Keep of Arvados.

A block has 0 to 64 MiB and is named by its MD5 and its size. ``docs/formats/keep.md`` has the
formats of locators, signatures and manifests.
"""
