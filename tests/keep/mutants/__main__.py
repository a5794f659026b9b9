"""``python -m tests.keep.mutants [WORD …]`` hunts the mutants whose names have one of the words, or all."""

import sys

from tests.keep.mutants.hunting import hunt

sys.exit(min(hunt(sys.argv[1:]), 1))
