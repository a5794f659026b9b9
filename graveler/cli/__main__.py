"""``python -m graveler.cli``: the command line where its script is not on the path."""

from graveler.cli.main import main

main()
