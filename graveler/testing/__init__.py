"""For tests, ours and anyone's: what each port promises, as suites to derive from."""
