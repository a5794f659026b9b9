"""Lakes of ten million entries: each row of the table of promises, measured.

``python -m tests.bench.scale [row …]`` builds the lakes once and keeps them in a folder. A row is a
function of a `Place`. It runs in a separate process, so that rows do not share memory.
"""
