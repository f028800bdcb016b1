"""The specification of an agent: a harness, a model and parameters, under a short name."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_aecbench.agents import MAX_WAIT_SEC, MODEL_AGENTS
from pytest_aecbench.documents.variables import expand_in, variables_in
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger.identity import agent_key, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "HARNESS",
    "NAME",
    "AgentSpec",
    "JSONValue",
    "agents_from",
    "parse_agents",
    "pinned_script",
    "script_digest",
]

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | dict[str, JSONValue] | None"

SCRIPTED = "scripted"
NAME = "[A-Za-z0-9_.:-]+"
HARNESS = r"[A-Za-z_][\w.-]*"

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)=(?P<spec>.+)", re.DOTALL)
# harness -> the parameter that follows its colon, and the kind of its value; a command that needs
# more than a name may be in "run" instead
_TAKES = {"command": ("command", "shell command"), "replay": ("path", "file or directory")}
_BRINGS_FILES = "command"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True, repr=False)
class AgentSpec:
    """A named way to attempt a task; all except the name is its identity.

    ``client`` is as the user wrote it, with the names of variables and not their values. Of a
    stored agent, only the digests of its prompt and its client are known. ``source`` is the path
    of a replayed agent's content, or of a scripted model's replies, on this host, and ``files`` are
    those of files that a command brings; paths are not part of the identity.
    """

    name: str
    harness: str
    model: str | None = None
    parameters: Mapping[str, JSONValue] = field(default_factory=dict)
    system_prompt: str | None = None
    client: Mapping[str, JSONValue] = field(default_factory=dict)
    source: Path | None = field(default=None, compare=False)
    files: tuple[Path, ...] = field(default=(), compare=False)
    system_prompt_sha256: str | None = None
    client_sha256: str | None = None

    def __post_init__(self) -> None:
        if self.system_prompt is not None:
            object.__setattr__(self, "system_prompt_sha256", digest_of(self.system_prompt))
        if self.client:
            client = json.dumps(self.client, sort_keys=True)
            object.__setattr__(self, "client_sha256", digest_of(client))

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    @property
    def max_wait_sec(self) -> float:
        """The longest time that the agent waits for a provider, beside its working time."""
        default = MAX_WAIT_SEC if self.harness in MODEL_AGENTS else 0.0
        given = self.parameters.get("max_wait_sec")
        return float(given) if isinstance(given, (int, float)) else default

    @property
    def may_bring_files(self) -> bool:
        """True if ``--aec-agent-files`` is for this agent."""
        return self.harness == _BRINGS_FILES

    @property
    def variables(self) -> set[str]:
        """The names of the host's variables that the agent's entry hands over."""
        passed_on = self.parameters.get("env")
        names = passed_on if isinstance(passed_on, (list, tuple)) else ()
        servers = self.parameters.get("mcp_servers")
        return {*variables_in(self.client), *variables_in(servers), *map(str, names)}

    def client_settings(self, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """Return ``client`` with its variables replaced."""
        return dict(expand_in(self.client, f"{self.name}: client", environ))


def parse_agents(texts: Sequence[str], where: str) -> tuple[AgentSpec, ...]:
    """Return the agents that a user types: ``[NAME=]HARNESS[:MODEL]``, or ``command:SHELL``."""
    agents = [_parse(text, where) for text in texts]
    return _distinct(agents, where, [f", as in 'other={_unnamed(text)}'" for text in texts])


def agents_from(
    entries: Sequence[Mapping[str, Any]], where: str, environ: Mapping[str, str] = os.environ
) -> tuple[AgentSpec, ...]:
    """Return the agents of an experiment, with the variables of their models replaced."""
    agents = []
    for index, entry in enumerate(entries):
        here = f"{where}.{index}"
        harness, parameters = entry["harness"], entry.get("parameters") or {}
        needed, what = _TAKES.get(harness, (None, ""))
        if needed == "command" and parameters.get("run"):
            needed = "run"
        _check_files(harness, entry, here)
        if needed and not str(parameters.get(needed) or "").strip():
            raise SettingsError(f"{here}.parameters.{needed}: missing; write a {what} there")
        model = expand_in(entry.get("model"), f"{here}.model", environ)
        model, parameters = overridden(harness, model, parameters, environ)
        about = str(parameters[needed]) if needed else model
        agent = AgentSpec(
            entry.get("name") or (f"{harness}:{_slug(about)}" if about else harness),
            harness,
            model,
            parameters,
            entry.get("system_prompt"),
            entry.get("client") or {},
            files=tuple(map(Path, entry.get("files") or ())),
        )
        expand_in(agent.client, f"{here}.client", environ)  # to report a missing variable now
        agents.append(agent)
    return _distinct(agents, where, [""] * len(agents))


def _check_files(harness: str, entry: Mapping[str, Any], here: str) -> None:
    if "files" in (entry.get("parameters") or {}):
        right = "write 'files' beside 'parameters'"
        raise SettingsError(f"{here}.parameters.files: is not a parameter; {right}")
    if entry.get("files") and harness != _BRINGS_FILES:
        right = "leave it out"
        raise SettingsError(f"{here}.files: only 'command' brings files, not {harness!r}; {right}")


# variable -> the parameter of a model agent that it overrides, and how it is read
_OVERRIDES: dict[str, tuple[str, type]] = {
    "AGENT_MAX_TOKENS": ("max_tokens", int),
    "AGENT_MAX_TURNS": ("max_turns", int),
    "AGENT_COMMAND_TIMEOUT": ("command_timeout", float),
}


def overridden(
    harness: str,
    model: str | None,
    parameters: Mapping[str, JSONValue],
    environ: Mapping[str, str],
) -> tuple[str | None, Mapping[str, JSONValue]]:
    """Return the model and the parameters, as the ``AGENT_…`` variables override them.

    Only model agents have them overridden here, so that records and trial keys tell; for the agent
    ``command`` they go into the sandbox.
    """
    takes = MODEL_AGENTS.get(harness)
    if takes is None:
        return model, parameters
    given = dict(parameters)
    for variable, (name, kind) in _OVERRIDES.items():
        text = environ.get(variable, "").strip()
        if not text or name not in takes:
            continue
        try:
            given[name] = kind(text)
        except ValueError:
            raise SettingsError(f"{variable}: {text!r} is not valid; use a number") from None
    return environ.get("AGENT_MODEL", "").strip() or model, given


def pinned_script(agent: AgentSpec, root: Path) -> AgentSpec:
    """Return the agent with the path and the digest of its script, if its model is one.

    Another content is another agent.
    """
    prefix, _, name = (agent.model or "").partition(":")
    if prefix != SCRIPTED or not name:
        return agent
    source = root / name
    digest = script_digest(source)
    if digest is None:
        return replace(agent, source=source)  # said when the script is checked
    return replace(agent, parameters={**agent.parameters, "script": digest}, source=source)


def script_digest(path: Path) -> str | None:
    """Return the digest of a script; None if it cannot be read."""
    try:
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError:
        return None


def _distinct(
    agents: Sequence[AgentSpec], where: str, examples: Sequence[str]
) -> tuple[AgentSpec, ...]:
    """Raise SettingsError for two agents that are the same or have the same name."""
    known: dict[str, AgentSpec] = {}
    for agent, example in zip(agents, examples, strict=True):
        if agent.name in known:
            raise SettingsError(
                f"{where}: two agents are named {agent.name!r}; give each its own name{example}"
            )
        for other in known.values():
            # Files are compared by content, but that is known only later.
            if agent_key(other) == agent_key(agent) and other.files == agent.files:
                raise SettingsError(
                    f"{where}: {other.name!r} and {agent.name!r} are the same agent; "
                    "to run one several times use --aec-repetitions"
                )
        known[agent.name] = agent
    return tuple(known.values())


def _unnamed(text: str) -> str:
    named = _NAMED.fullmatch(text)
    return named["spec"] if named else text


def _parse(text: str, where: str) -> AgentSpec:
    named = _NAMED.fullmatch(text)
    spec = _unnamed(text).strip()
    harness, _, rest = spec.partition(":")
    if not re.fullmatch(HARNESS, harness):
        raise SettingsError(
            f"{where}: {text!r} does not name an agent; use HARNESS, HARNESS:MODEL, "
            "command:SHELL, replay:PATH or a dotted path, optionally after NAME="
        )
    if harness in _TAKES:
        parameter, what = _TAKES[harness]
        if not rest.strip():
            raise SettingsError(f"{where}: {text!r} has no {parameter}; use {harness}:<{what}>")
        name = f"{harness}:{_slug(rest)}"
        agent = AgentSpec(name, harness, parameters={parameter: rest})
    else:
        model, parameters = overridden(harness, rest or None, {}, os.environ)
        name = f"{harness}:{_slug(model)}" if model else harness
        agent = AgentSpec(name, harness, model, parameters)
    if named:
        return AgentSpec(named["name"], agent.harness, agent.model, agent.parameters)
    return agent


def _slug(text: str) -> str:
    """Return a short form of ``text`` that fits into a node id and can be pasted back."""
    from pytest_aecbench.host.secrets import Scrubber, secrets_from

    text = Scrubber(secrets_from(os.environ)).text(text)
    return _UNSAFE.sub("-", text.strip()).strip("-")[:40].rstrip("-") or "x"
