"""The pod template of the Kubernetes executor: the API accepts it, and it fits Airflow."""

from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

TEMPLATE = Path(__file__).parents[2] / "docs/examples/airflow/pod_template.yaml"
VERSIONS = ("1.31", "1.33", kubernetes_validate.latest_version())


@pytest.fixture
def pod():
    return yaml.safe_load(TEMPLATE.read_text("utf-8"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_template_is_a_pod_by_the_schema_of_the_api(pod, version):
    kubernetes_validate.validate(pod, version, strict=True)


def test_airflow_finds_its_container_and_the_connection_a_secret(pod):
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "base"
    variables = {variable["name"]: variable for variable in container["env"]}
    connection = variables["AIRFLOW_CONN_GRAVELER_DEFAULT"]
    assert connection["valueFrom"]["secretKeyRef"] == {"name": "graveler", "key": "connection"}
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert variables["XDG_CACHE_HOME"]["value"] in mounted
