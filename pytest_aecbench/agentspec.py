"""Which agent attempts a task: a harness, a model and parameters, under a short name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["AgentSpec", "JSONScalar", "parse_agents"]

JSONScalar: TypeAlias = "str | int | float | bool | None"

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)=(?P<spec>.+)", re.DOTALL)
_HARNESS = re.compile(r"[A-Za-z_][\w.-]*")
# harness -> the parameter that all after its colon is, and what that is
_TAKES = {"command": ("command", "shell command"), "replay": ("path", "file or directory")}
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True, repr=False)
class AgentSpec:
    """A named way to attempt a task; the name is for people, the rest is its identity.

    ``source`` is where on this host its content is, for an agent that repeats some; where that
    is does not matter, so it is no part of the identity either.
    """

    name: str
    harness: str
    model: str | None = None
    parameters: Mapping[str, JSONScalar] = field(default_factory=dict)
    source: Path | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    def identity(self) -> dict[str, object]:
        """Return what makes this agent differ from another one, as JSON-able data."""
        return {
            "harness": self.harness,
            "model": self.model,
            "parameters": dict(sorted(self.parameters.items())),
        }


def parse_agents(texts: Sequence[str], where: str) -> tuple[AgentSpec, ...]:
    """Read agents as users write them: ``[NAME=]HARNESS[:MODEL]``, or ``command:SHELL``."""
    agents: dict[str, AgentSpec] = {}
    for text in texts:
        agent = _parse(text, where)
        if agent.name in agents:
            raise SettingsError(
                f"{where}: two agents are named {agent.name!r}; "
                f"name them apart, as in 'other={_unnamed(text)}'"
            )
        for other in agents.values():
            if other.identity() == agent.identity():
                raise SettingsError(
                    f"{where}: {other.name!r} and {agent.name!r} are the same agent; "
                    "to run one several times use --aec-repetitions"
                )
        agents[agent.name] = agent
    return tuple(agents.values())


def _unnamed(text: str) -> str:
    named = _NAMED.fullmatch(text)
    return named["spec"] if named else text


def _parse(text: str, where: str) -> AgentSpec:
    named = _NAMED.fullmatch(text)
    spec = _unnamed(text).strip()
    harness, _, rest = spec.partition(":")
    if not _HARNESS.fullmatch(harness):
        raise SettingsError(
            f"{where}: {text!r} does not name an agent; use HARNESS, HARNESS:MODEL, "
            "command:SHELL, replay:PATH or a dotted path, with NAME= before it if you like"
        )
    if harness in _TAKES:
        parameter, what = _TAKES[harness]
        if not rest.strip():
            raise SettingsError(f"{where}: {text!r} has no {parameter}; use {harness}:<{what}>")
        name = f"{harness}:{_slug(rest)}"
        agent = AgentSpec(name, harness, parameters={parameter: rest})
    else:
        name = f"{harness}:{_slug(rest)}" if rest else harness
        agent = AgentSpec(name, harness, model=rest or None)
    if named:
        return AgentSpec(named["name"], agent.harness, agent.model, agent.parameters)
    return agent


def _slug(text: str) -> str:
    """Shorten ``text`` to what can stand in a node id, be shown, and be pasted back."""
    from pytest_aecbench.scrubbing import Scrubber, secrets_from

    text = Scrubber(secrets_from(os.environ)).text(text)
    return _UNSAFE.sub("-", text.strip()).strip("-")[:40].rstrip("-") or "x"
