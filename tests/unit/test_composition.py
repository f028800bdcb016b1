"""What a compose file may ask for, and what one trial gets of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.docker.build import Recipe
from pytest_aecbench.backends.docker.compose_file import Composition
from pytest_aecbench.errors import BuildError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docker-compose.yaml"


def rendered(path: Path, model: dict[str, Any], *, network: bool = True) -> Any:
    composition = Composition.read(path, model)
    images = dict.fromkeys(composition.services, "image")
    return json.loads(
        composition.rendered(images, {"whose": "ours$"}, {"cpus": 1}, network=network)
    )


@pytest.mark.parametrize(
    ("main", "where"),
    [
        ({"privileged": True}, "services.main.privileged: would give access"),
        ({"devices": ["/dev/kvm:/dev/kvm"]}, "services.main.devices: would give access"),
        ({"network_mode": "host"}, "services.main.network_mode: 'host' would give access"),
        ({"pid": "host"}, "services.main.pid: 'host' would give access"),
        ({"ipc": "container:x"}, "services.main.ipc: 'container:x' would give access"),
        (
            {"volumes": ["/var/run/docker.sock:/sock:rw"]},
            "services.main.volumes: '/var/run/docker.sock' is not in environment/",
        ),
        (
            {"volumes": [{"type": "bind", "source": "/etc", "target": "/x"}]},
            "services.main.volumes: '/etc' is not in environment/",
        ),
    ],
)
def test_what_reaches_beyond_the_trial_is_refused(
    path: Path, main: dict[str, Any], where: str
) -> None:
    with pytest.raises(BuildError, match=r"\A[^\n]+; [^\n]+\Z") as caught:
        Composition.read(path, {"services": {"main": main}})
    assert str(caught.value).startswith(f"{path}: {where}")


@pytest.mark.parametrize("kind", ["configs", "networks", "secrets", "volumes"])
def test_what_others_have_made_is_refused(path: Path, kind: str) -> None:
    with pytest.raises(BuildError, match=rf": {kind}.theirs.external: would give access"):
        Composition.read(path, {"services": {}, kind: {"theirs": {"external": True}}})


def test_a_link_out_of_the_environment_is_refused(path: Path) -> None:
    (path.parent / "link").symlink_to("/etc")
    model = {"services": {"main": {"volumes": [f"{path.parent}/link:/x"]}}}
    with pytest.raises(BuildError, match="is not in environment/; put it there"):
        Composition.read(path, model)


def test_files_of_the_environment_are_mounted_for_reading_alone(path: Path) -> None:
    inside = str(path.parent / "file")
    for volume in (f"{inside}:/x:rw", {"type": "bind", "source": inside, "target": "/x"}):
        model = rendered(path, {"services": {"web": {"volumes": [volume]}}})
        assert model["services"]["web"]["volumes"] == [
            {"type": "bind", "source": inside, "target": "/x", "read_only": True}
        ]


def test_nothing_is_mounted_over_what_travels_as_archives(path: Path) -> None:
    volumes = ["/x:/logs/agent", "own:/tests", "/anonymous", "data:/logs-of-mine:rw"]
    model = rendered(path, {"services": {"main": {"volumes": volumes}}})
    assert model["services"]["main"]["volumes"] == volumes[2:]


def test_everything_is_labelled_and_nothing_has_a_name_of_its_own(path: Path) -> None:
    model = rendered(
        path,
        {
            "name": "fixed",
            "version": "3.9",
            "services": {"web": {"labels": ["a=b"], "container_name": "web1", "ports": [80]}},
            "networks": {"back": {"name": "fixed_back"}, "default": None},
            "volumes": {"data": {"name": "fixed_data", "labels": {"c": "d"}}},
        },
    )
    assert not {"name", "version"} & model.keys()
    assert model["services"]["web"]["labels"] == {"a": "b", "whose": "ours$$"}
    assert model["services"]["main"]["labels"] == {"whose": "ours$$"}
    labelled = {"labels": {"whose": "ours$$"}}
    assert model["networks"] == {"back": labelled, "default": labelled}
    assert model["volumes"] == {"data": {"labels": {"c": "d", "whose": "ours$$"}}}
    assert model["services"]["web"]["networks"] == {"default": {"aliases": ["web1"]}}
    assert not {"container_name", "ports"} & model["services"]["web"].keys()


def test_no_network_means_none_but_to_other_services(path: Path) -> None:
    alone = rendered(path, {"services": {"main": {}}}, network=False)
    assert alone["services"]["main"]["network_mode"] == "none"
    both = rendered(path, {"services": {"web": {"network_mode": "bridge"}}}, network=False)
    assert both["networks"]["default"]["internal"] is True
    assert "network_mode" not in both["services"]["web"]


def test_limits_below_deploy_are_those_that_all_compose_commands_keep(path: Path) -> None:
    limits = {"cpus": "0.5", "memory": "64M", "pids": 9}
    service = {"deploy": {"resources": {"limits": limits}}}
    services = rendered(path, {"services": {"main": service, "web": service}})["services"]
    for name, cpus in (("main", 1), ("web", 0.5)):
        assert services[name]["cpus"] == cpus
        assert (services[name]["mem_limit"], services[name]["pids_limit"]) == ("64M", 9)
        assert services[name]["deploy"] == {"resources": {}}


def test_images_are_built_as_the_file_says(path: Path) -> None:
    build = {"context": str(path.parent), "args": ["A=$$x", "B"], "target": "t", "labels": {}}
    model = {"services": {"Web": {"build": build, "platform": "linux/amd64"}, "db": {"image": "d"}}}
    composition = Composition.read(path, model)
    assert composition.image_of("Web", "task", 5) == Recipe(
        path.parent, "task-web", 5, "Dockerfile", {"A": "$x", "B": ""}, "t", "linux/amd64"
    )
    assert composition.image_of("db", "task", 5) == "d"
    assert composition.image_of("main", "task", 5) is None


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ({}, "services.web: has no image; add 'image' or 'build'"),
        ({"build": {"context": "/no/such"}}, "services.web.build.context: '/no/such' is not a dir"),
        (
            {"build": {"context": "/", "secrets": ["x"]}},
            "services.web.build.secrets: is not supported; use 'args', 'context', 'dockerfile', ",
        ),
    ],
)
def test_an_image_that_cannot_be_had_is_one_line(
    path: Path, service: dict[str, Any], message: str
) -> None:
    composition = Composition.read(path, {"services": {"web": service}})
    with pytest.raises(BuildError, match=r"\A[^\n]+\Z") as caught:
        composition.image_of("web", "task", 5)
    assert str(caught.value).startswith(f"{path}: {message}")
