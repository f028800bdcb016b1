"""A task's docker-compose.yaml: checked, and rewritten for one trial."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.docker.build import Recipe
from pytest_aecbench.backends.docker.compose_shape import check_shape
from pytest_aecbench.backends.docker.scripts import KEEP_ALIVE
from pytest_aecbench.errors import BuildError
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MAIN", "Composition"]

# The service in which agent and verifier work.
MAIN = "main"
# Directories that are copied as archives, so nothing may be mounted there.
_OURS = ("/logs", "/solution", "/tests")
_BUILD_KEYS = {"args", "context", "dockerfile", "target"}
_BUILD_HINTS = {"cache_from", "cache_to", "labels", "no_cache", "pull", "tags"}  # no effect here
_HOST = "would give access to the host or to other trials; leave it out"


@dataclass(frozen=True)
class Composition:
    """A compose file, resolved by the compose command."""

    path: Path
    services: Mapping[str, dict[str, Any]]
    rest: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, model: Mapping[str, Any]) -> Composition:
        """Return the resolved file at ``path``; raise BuildError if a trial cannot have it."""
        try:
            check_shape(model)
        except ValueError as error:
            raise BuildError(f"{path}: {printable(error)}") from None
        rest = {key: value for key, value in model.items() if key not in ("name", "version")}
        services = {
            name: dict(one or {}) for name, one in (rest.pop("services", None) or {}).items()
        }
        services.setdefault(MAIN, {})
        made = cls(path, services, rest)
        made._check()
        return made

    def _refuse(self, where: str, what: str) -> BuildError:
        return BuildError(f"{self.path}: {printable(where)}: {what}")

    def _check(self) -> None:
        for name, service in self.services.items():
            where = f"services.{name}"
            for key in ("privileged", "devices"):
                if service.get(key):
                    raise self._refuse(f"{where}.{key}", _HOST)
            for key in ("cgroup", "ipc", "network_mode", "pid", "userns_mode", "uts"):
                value = str(service.get(key, ""))
                if value == "host" or value.startswith("container:"):
                    raise self._refuse(f"{where}.{key}", f"{value!r} {_HOST}")
            cpus = _limits(service).get("cpus")
            if not _is_number(cpus):
                at = f"{where}.deploy.resources.limits.cpus"
                raise self._refuse(at, f"{cpus!r} is not a number; write one, such as 0.5")
            for mounted in _bind_mounts(service):
                self._check_source(f"{where}.volumes", mounted)
        for kind in ("networks", "volumes", "configs", "secrets"):
            for name, entry in (self.rest.get(kind) or {}).items():
                if (entry or {}).get("external"):
                    raise self._refuse(f"{kind}.{name}.external", _HOST)
                if source := (entry or {}).get("file"):
                    self._check_source(f"{kind}.{name}", source)

    def _check_source(self, where: str, source: str) -> None:
        context = os.path.realpath(self.path.parent)
        if not Path(os.path.realpath(source)).is_relative_to(context):
            raise self._refuse(where, f"{source!r} is not in environment/; put it there")

    def image_of(self, name: str, task: str, timeout_sec: float) -> Recipe | str | None:
        """Return the recipe or name of the service's image; None if main has neither."""
        service = self.services[name]
        build = service.get("build")
        if build is None:
            if "image" not in service and name != MAIN:
                raise self._refuse(f"services.{name}", "has no image; add 'image' or 'build'")
            return service.get("image")
        where = f"services.{name}.build"
        if unknown := sorted(build.keys() - _BUILD_KEYS - _BUILD_HINTS):
            valid = ", ".join(map(repr, sorted(_BUILD_KEYS)))
            raise self._refuse(f"{where}.{unknown[0]}", f"is not supported; use {valid}")
        context = Path(build["context"])
        if not os.path.isdir(context):  # noqa: PTH112  (it takes names of any length)
            raise self._refuse(f"{where}.context", f"{str(context)!r} is not a directory; name one")
        return Recipe(
            context,
            task if name == MAIN else f"{task}-{name.lower()}",
            timeout_sec,
            os.path.relpath(context / (build.get("dockerfile") or "Dockerfile"), context),
            {key: str(value).replace("$$", "$") for key, value in _args(build).items()},
            build.get("target"),
            service.get("platform"),
        )

    def rendered(
        self,
        images: Mapping[str, str],
        labels: Mapping[str, str],
        options: Mapping[str, Any],
        *,
        network: bool,
    ) -> str:
        """Return the file for one trial: everything labelled, main kept alive with ``options``."""
        labels = {name: _literal(value) for name, value in labels.items()}
        model = copy.deepcopy(dict(self.rest))
        model["networks"] = dict(model.get("networks") or {})
        model["networks"].setdefault("default", None)
        for kind in ("networks", "volumes", "configs", "secrets"):
            for name, entry in dict(model.get(kind) or {}).items():
                # A fixed name would be shared with other trials.
                made = {key: value for key, value in (entry or {}).items() if key != "name"}
                if kind in ("networks", "volumes"):
                    made["labels"] = {**_mapping(made.get("labels")), **labels}
                if kind == "networks" and not network:
                    made["internal"] = True
                model[kind][name] = made
        services = model["services"] = {}
        for name, service in self.services.items():
            made = _for_one_trial(copy.deepcopy(service))
            made["image"] = _literal(images[name])
            made["labels"] = {**_mapping(made.get("labels")), **labels}
            services[name] = made
        _keep_alive(services[MAIN], options)
        if not network and len(services) == 1:
            services[MAIN].pop("networks", None)
            services[MAIN]["network_mode"] = "none"
        return json.dumps(model, indent=1)


def _for_one_trial(service: dict[str, Any]) -> dict[str, Any]:
    """Remove the keys over which simultaneous trials would conflict or be connected."""
    for key in ("build", "ports", "pull_policy"):
        service.pop(key, None)
    if service.get("network_mode") in ("bridge", "default"):
        service.pop("network_mode")
    alias = service.pop("container_name", None)
    if alias and "network_mode" not in service:
        networks = service.get("networks") or {"default": None}
        if isinstance(networks, list):
            networks = dict.fromkeys(networks)
        for name, entry in networks.items():
            aliases = [*((entry or {}).get("aliases") or ()), alias]
            networks[name] = {**(entry or {}), "aliases": aliases}
        service["networks"] = networks
    # Old and new compose commands both support these keys, but not the ones below "deploy".
    limits = _limits(service)
    ((service.get("deploy") or {}).get("resources") or {}).pop("limits", None)
    for theirs, ours in (("cpus", "cpus"), ("memory", "mem_limit"), ("pids", "pids_limit")):
        if limits.get(theirs) is not None:
            service.setdefault(ours, float(limits[theirs]) if ours == "cpus" else limits[theirs])
    service["volumes"] = [_read_only(volume) for volume in service.get("volumes") or ()]
    return service


def _limits(service: Mapping[str, Any]) -> Mapping[str, Any]:
    return ((service.get("deploy") or {}).get("resources") or {}).get("limits") or {}


def _keep_alive(main: dict[str, Any], options: Mapping[str, Any]) -> None:
    for key in ("restart", "tty"):
        main.pop(key, None)
    main.setdefault("healthcheck", {"disable": True})
    own = [volume for volume in main["volumes"] if not _is_ours(PurePosixPath(_target(volume)))]
    options = {**options, "volumes": [*own, *options.get("volumes", ())]}
    main.update(
        entrypoint=["bash"],
        command=["-c", KEEP_ALIVE],
        user="0",
        stdin_open=True,
        logging={"driver": "none"},
        **options,
    )


def _is_number(value: Any) -> bool:
    try:
        float(0 if value is None else value)
    except ValueError:
        return False
    return True


def _is_ours(target: PurePosixPath) -> bool:
    return any(target.is_relative_to(ours) for ours in _OURS)


def _bind_mounts(service: Mapping[str, Any]) -> Iterator[str]:
    for volume in service.get("volumes") or ():
        target = PurePosixPath(_target(volume))
        source = _read_only(volume)
        if isinstance(source, dict) and source.get("type") == "bind" and not _is_ours(target):
            yield (source.get("source") or "").replace("$$", "$")


def _target(volume: str | Mapping[str, Any]) -> str:
    if not isinstance(volume, str):
        return str(volume.get("target", ""))
    first, _, rest = volume.partition(":")
    return rest.partition(":")[0] or first


def _read_only(volume: str | dict[str, Any]) -> str | dict[str, Any]:
    """Return a mount of host files as read-only, so that no trial can change them for another."""
    if isinstance(volume, str):
        source, colon, _ = volume.partition(":")
        if not colon or not source.startswith("/"):
            return volume
        volume = {"type": "bind", "source": source, "target": _target(volume)}
    return {**volume, "read_only": True} if volume.get("type") == "bind" else volume


def _args(build: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: "" if value is None else value for name, value in _mapping(build.get("args")).items()
    }


def _mapping(given: Any) -> dict[str, Any]:
    """Return a mapping for a list of ``name=value``, the other form that compose files allow."""
    if isinstance(given, list):
        return {name: value for name, _, value in (str(one).partition("=") for one in given)}
    return dict(given or {})


def _literal(text: str) -> str:
    """Escape text so that the compose command replaces no variable in it."""
    return text.replace("$", "$$")
