"""Compose models that nobody meant are refused with one line, or used; they are never a crash."""

from __future__ import annotations

import copy
import datetime
import random
from pathlib import Path
from typing import Any

from pytest_aecbench.backends.docker.compose_file import Composition
from pytest_aecbench.errors import BuildError
from tests.costs import NIGHTLY

TIMES = 30_000 if NIGHTLY else 3_000
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, float("nan"), 10**30, "", "x", "0", "a=b", "$", "$$", "~"),
    *("/", "..", "\0", "\ud800", "x" * 5000, "host", "container:x", "/x:/y:rw", ":", "::", "-"),
    *([], {}, [[]], [{}], [None], [1], {"": ""}, {"x": None}, {1: 2}, {None: 1}, {(1, 2): 3}),
    *({"type": "bind"}, {"type": "bind", "source": 5}, {"file": 5}, {"external": "x"}),
    *(datetime.date(2026, 1, 1), b"bytes", {"aliases": 1}, {"resources": []}, {"limits": "x"}),
]


def sound_model(directory: Path) -> dict[str, Any]:
    """Return a model that uses every part of a compose file that is read here."""
    build = {"context": str(directory), "args": {"A": "1"}, "dockerfile": "Dockerfile"}
    limits = {"cpus": "0.5", "memory": "64M", "pids": 9}
    mount = {"type": "bind", "source": str(directory), "target": "/x"}
    return {
        "name": "fixed",
        "services": {
            "main": {
                "build": build,
                "platform": "linux/amd64",
                "labels": {"a": "b"},
                "volumes": [mount, "data:/data"],
                "networks": {"back": {"aliases": ["m"]}},
                "container_name": "m",
                "working_dir": "/srv",
                "user": "7:7",
            },
            "web": {
                "image": "web",
                "labels": ["a=b"],
                "networks": ["back"],
                "ports": ["80"],
                "deploy": {"resources": {"limits": limits}},
                "container_name": "w",
                "volumes": ["/anonymous"],
                "network_mode": "bridge",
                "pid": "service:main",
            },
        },
        "networks": {"back": {"name": "fixed", "labels": {"c": "d"}}, "default": None},
        "volumes": {"data": {"name": "fixed", "labels": ["c=d"]}},
        "configs": {"c": {"file": str(directory / "c")}},
        "secrets": {"s": {"file": str(directory / "s")}},
    }


def mutated(draw: random.Random, model: dict[str, Any]) -> dict[str, Any]:
    """Return the model with some of its values replaced, removed, moved or added."""
    model = copy.deepcopy(model)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 5))):
        places = list(below(model))
        holder, key = draw.choice(places)
        how = draw.choice(("replace", "replace", "replace", "remove", "move", "add"))
        if how == "replace":
            holder[key] = copy.deepcopy(draw.choice(ODD))
        elif how == "remove":
            del holder[key]
        elif how == "move":
            other, there = draw.choice(places)
            holder[key] = copy.deepcopy(other[there])
        elif isinstance(holder, dict):
            holder[draw.choice(["x", "", 5, None, "external", "file", "labels", "new\nline"])] = (
                copy.deepcopy(draw.choice(ODD))
            )
        else:
            holder.append(copy.deepcopy(draw.choice(ODD)))
    return model


def below(value: Any) -> list[tuple[Any, Any]]:
    """Return the holder and the key of every value within a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = []
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            found += below(value[key])
    return found


def use(path: Path, model: dict[str, Any]) -> str:
    """Do with a model what a trial does; return how it was refused, if it was."""
    try:
        composition = Composition.read(path, model)
        for name in composition.services:
            composition.image_of(name, "task", 5)
        images = dict.fromkeys(composition.services, "image")
        for network in (True, False):
            composition.rendered(images, {"whose": "ours"}, {"cpus": 1}, network=network)
    except BuildError as error:
        return str(error)
    return ""


def test_a_mutated_model_is_used_or_refused_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "docker-compose.yaml"
    model = sound_model(tmp_path)
    assert use(path, model) == ""
    draw = random.Random("compose")
    refused = 0
    for number in range(TIMES):
        changed = mutated(draw, model)
        try:
            said = use(path, changed)
        except Exception as error:
            raise AssertionError(f"model {number}: {error!r}\n{changed!r}") from error
        refused += bool(said)
        assert "\n" not in said, said
        assert not said or said.startswith(f"{path}: "), said
        assert "; " in said or not said, said
    assert TIMES / 10 < refused < TIMES  # or it would not have tried much
