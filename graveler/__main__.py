"""``python -m graveler``: the command line if its script is not on the path."""

from graveler.cli.main import main

main()
