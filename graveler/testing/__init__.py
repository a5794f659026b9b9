"""For tests, ours and anyone's: what each port promises, as suites to derive from."""

import pytest

# so that a failing assert in a suite shows its values, in whoever's tests
pytest.register_assert_rewrite("graveler.testing.kv_suite", "graveler.testing.objects_suite")
