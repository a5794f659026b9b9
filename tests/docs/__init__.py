"""Runs the code of the README, the guides and the concepts as a reader would run it.

`pages.pages()` gives the pages and their blocks; `playing.play(page, tier, folder)` runs the
blocks of one page in order and raises `BlockError` at the first that fails, with its line. The
blocks of a page share a fresh folder, a fresh home, one bash and one Python interpreter; no
variable of graveler is set, and the programs of the virtual environment are on the PATH.

The language of a block decides what it does:

- `console`: each line after `$ ` is a command. It must succeed, unless the page shows an output
  that begins with `error:` or `echo $?` as the next command. A shown output is compared.
- `sh`: a script, run with `set -e`.
- `python`: run in the page's interpreter. A `text` block after it shows its output.
- `toml`, `yaml`, `json`: parsed. The tables of a `graveler.toml` are also loaded as settings.

Comparison normalises whitespace and the patterns in `output.py`: ids, times, sizes, durations. In
shown output, `…` and `...` match anything.

An id that a page shows stands for the id of the run, also in later commands.

A comment right before a block changes this:

- `<!-- file: NAME -->`: the block is appended to that file and not run.
- `<!-- run: real -->`: the block needs an orchestrator, a JVM or a server. `make test` leaves it
  out; `make test-real` runs the whole page with it.
- `<!-- shows: FILE -->`: the block is a part of that file of the repository, which other tests run.
- `<!-- not run: REASON -->`: the block is an illustration. `test_pages.py` counts these.

A comment whose first line is only `python` or `sh` is a block that readers do not see.
"""
