"""The step of a run in the settings of spark-submit."""

import re
from types import SimpleNamespace

import pytest

from graveler import attach, init
from graveler.errors import InvalidInputError
from graveler.frames.spark.session import submit_settings, submitted_step

REDACTED = re.compile("(?i)secret|password|token|access[.]?key|access[.]?id")
"""Spark's own pattern of settings whose values it hides."""


def session(settings):
    return SimpleNamespace(conf=SimpleNamespace(getAll={"spark.master": "yarn", **settings}))


def test_a_driver_joins_the_run_by_the_settings_of_its_session(tmp_path):
    with init(tmp_path) as lake:
        run = lake.create_repository("flights").runs.open("hour")
        settings = submit_settings(run.step_environment("load"))
        assert all(name.startswith("spark.") and REDACTED.search(name) for name in settings)
        with attach(submitted_step(session(settings))) as step:
            step.put("a", b"1")
        assert [entry.path for entry in run.entries()] == ["a"]
        assert run.head.metadata["graveler.step"] == "load"


def test_a_session_without_them_is_in_no_run():
    assert submitted_step(session({})) == {}
    with pytest.raises(InvalidInputError, match="GRAVELER_RUN is not set"):
        with attach(submitted_step(session({}))):
            raise AssertionError("there is no run")
    with pytest.raises(InvalidInputError, match="variables"):
        submit_settings("GRAVELER_RUN=x")  # type: ignore[arg-type]
