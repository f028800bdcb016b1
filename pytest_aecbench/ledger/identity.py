"""Identity: which agent is the same, which trial is the same, and which attempt settles a trial."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

__all__ = ["AgentKeys", "agent_identity", "agent_key", "digest_of", "final_attempts", "trial_key"]


class _Agent(Protocol):
    """An agent, as a run is given it or as a record names it."""

    @property
    def harness(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def parameters(self) -> Mapping[str, object]: ...
    @property
    def system_prompt_sha256(self) -> str | None: ...
    @property
    def client_sha256(self) -> str | None: ...


class _Attempt(Protocol):
    @property
    def scored(self) -> bool: ...
    @property
    def attempt(self) -> int: ...
    @property
    def started_sec(self) -> float: ...


_AttemptT = TypeVar("_AttemptT", bound=_Attempt)


def agent_identity(agent: _Agent) -> dict[str, object]:
    """Return everything that makes the agent differ from another one; its name does not."""
    digests = {
        "system_prompt_sha256": agent.system_prompt_sha256,
        "client_sha256": agent.client_sha256,
    }
    return {
        "harness": agent.harness,
        "model": agent.model,
        "parameters": dict(sorted(agent.parameters.items())),
        **{name: digest for name, digest in digests.items() if digest},
    }


def agent_key(agent: _Agent) -> str:
    """Return the agent's identity in a form that can be a key."""
    return json.dumps(agent_identity(agent), sort_keys=True)


class AgentKeys:
    """The keys of agents, each worked out once although thousands of records share the agent."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Agent, str]] = {}

    def __call__(self, agent: _Agent) -> str:
        """Return what ``agent_key`` does."""
        known = self._known.get(id(agent))
        if known is None:  # with the agent itself, so that its id is not that of another later
            known = self._known[id(agent)] = agent, agent_key(agent)
        return known[1]


def trial_key(task_digest: str, agent: _Agent, repetition: int, mounts: Iterable[str] = ()) -> str:
    """Return what identifies a trial wherever and whenever it runs.

    With mounts, it is another trial than without.
    """
    digest = hashlib.sha256()
    for part in (task_digest, agent_key(agent), str(repetition), *mounts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def digest_of(text: str) -> str:
    """Return the digest by which an identity knows a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def final_attempts(
    attempts: Iterable[_AttemptT], key: Callable[[_AttemptT], Hashable]
) -> list[_AttemptT]:
    """Return the attempt that settles each trial: the last scored one, else the last.

    ``key`` tells which attempts are at the same trial.
    """
    final: dict[Hashable, _AttemptT] = {}
    for attempt in attempts:
        trial = key(attempt)
        other = final.get(trial, attempt)
        if _rank(attempt) >= _rank(other):
            final[trial] = attempt
    return list(final.values())


def _rank(attempt: _Attempt) -> tuple[bool, float, int]:
    return attempt.scored, attempt.started_sec, attempt.attempt
