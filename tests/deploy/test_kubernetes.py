"""The manifests for Kubernetes: of one mind with the profiles, the image and each other."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from backends.engines.profiles import VllmProfile, profile_of
from backends.engines.vllm import vllm_command

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"


def documents() -> list[dict[str, Any]]:
    """Return all objects of all manifests."""
    return [
        document
        for file in sorted(FOLDER.glob("*.yaml"))
        for document in YAML(typ="safe").load_all(file.read_text("utf-8"))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    ]


def of(kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind by name."""
    return {each["metadata"]["name"]: each for each in documents() if each["kind"] == kind}


def container(name: str) -> dict[str, Any]:
    (found,) = of("Deployment")[name]["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("name", ["flash-latency", "flash-throughput"])
def test_an_engine_runs_as_its_profile_says(name: str):
    profile = profile_of(name, ["kv_offload=host"])
    assert isinstance(profile, VllmProfile)
    command = vllm_command(profile, host="0.0.0.0")
    found = container(name)
    assert (*found["command"], *found["args"]) == command.argv
    assert {each["name"]: each.get("value") for each in found["env"]}.items() >= command.env.items()


def test_every_service_finds_its_pods():
    deployments, services = of("Deployment"), of("Service")
    assert services.keys() == deployments.keys()
    for name, service in services.items():
        spec = deployments[name]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        ports = {port["name"] for port in container(name)["ports"]}
        assert {port["name"] for port in service["spec"]["ports"]} <= ports


def test_engines_are_behind_headless_services():
    headless = {name for name, each in of("Service").items() if each["spec"].get("clusterIP") == "None"}
    assert headless == {"flash-latency", "flash-throughput"}


def test_the_gateway_may_look_for_endpoints_and_nothing_else():
    assert of("Role")["flashlane-endpoints"]["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list"]}
    ]
    binding = of("RoleBinding")["flashlane-endpoints"]
    account = of("Deployment")["flashlane"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    assert binding["roleRef"]["name"] == "flashlane-endpoints"


def test_the_gateway_is_the_user_of_its_image():
    dockerfile = (FOLDER.parents[1] / "Dockerfile").read_text("utf-8")
    security = of("Deployment")["flashlane"]["spec"]["template"]["spec"]["securityContext"]
    assert f"--uid {security['runAsUser']} " in dockerfile
