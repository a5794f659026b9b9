"""Asks the sensors about a run that has ended, as Dagster's daemon does."""

import logging

import dagster as dg

_ENDINGS = {
    dg.DagsterRunStatus.SUCCESS: (dg.DagsterEventType.PIPELINE_SUCCESS, "unpublished"),
    dg.DagsterRunStatus.FAILURE: (dg.DagsterEventType.PIPELINE_FAILURE, "failed"),
    dg.DagsterRunStatus.CANCELED: (dg.DagsterEventType.PIPELINE_CANCELED, "canceled"),
}


def ended(defs, instance, run_id, name=""):
    """Ask the sensor for the run's status, of a pipeline by name; return the lines that it logs."""
    run = instance.get_run_by_id(run_id)
    kind, ending = _ENDINGS[run.status]
    (event,) = instance.all_logs(run_id, of_type=kind)
    (sensor,) = [
        sensor
        for sensor in defs.sensors
        if sensor.name.endswith(f"_{ending}") and sensor.name.startswith(name)
    ]
    with dg.build_run_status_sensor_context(
        sensor_name=sensor.name,
        dagster_event=event.dagster_event,
        dagster_instance=instance,
        dagster_run=run,
        resources={"graveler": defs.resources["graveler"]},
    ) as context:
        output: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: output.append(record.getMessage())  # type: ignore[method-assign]
        context.log.addHandler(handler)
        context.log.setLevel(logging.INFO)
        try:
            assert sensor(context) is None  # otherwise Dagster would skip all other runs
        finally:
            context.log.removeHandler(handler)
        return "; ".join(output)
