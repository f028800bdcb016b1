"""The experiment that a run amounts to, as an ``experiment.yaml`` that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_aecbench.documents.strict import dump_yaml
from pytest_aecbench.documents.variables import expand_in
from pytest_aecbench.host.secrets import Scrubber

if TYPE_CHECKING:
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.settings.model import Settings

__all__ = ["experiment_yaml"]


def experiment_yaml(settings: Settings, arguments: Sequence[str]) -> bytes:
    """Return the run's experiment without secrets; ``arguments`` are pytest's, for a comment.

    Variables are filled in, so that it says the same tomorrow, but for those whose values are
    secret.
    """
    scrubber = Scrubber(settings.secrets())
    command = shlex.join(("pytest", *arguments)).encode("unicode_escape").decode()
    document = dump_yaml(scrubber.json(_document(settings, scrubber)))
    return f"# ran as: {scrubber.text(command)}\n{document}".encode("utf-8", "replace")


def _document(settings: Settings, scrubber: Scrubber) -> dict[str, Any]:
    selection = settings.selection
    options = {
        name.rpartition(":")[2]: _filled_in(value, where, scrubber)
        for name, (value, where) in settings.given.items()
        if name.startswith(f"compute:{settings.backend}:")
    }
    return {
        "experiment_id": settings.experiment_id,
        **_set(name=settings.experiment_name, description=settings.description),
        **_set(
            tasks=_set(
                dataset=settings.dataset,
                include_patterns=list(selection.include_patterns),
                exclude_patterns=list(selection.exclude_patterns),
                domains=list(selection.domains),
                difficulties=list(selection.difficulties),
                lifecycle=list(selection.lifecycle),
            )
        ),
        "agents": [_agent(agent, settings) for agent in settings.agents],
        "compute": {
            "backend": _escaped(settings.backend),
            **({settings.backend: options} if options else {}),
            **_set(
                resource_limits=_set(
                    timeout_override=settings.timeout_override_sec,
                    memory_mb=settings.memory_mb,
                    cpus=settings.cpus,
                    n_concurrent_trials=settings.concurrency,
                )
            ),
        },
        "repetitions": settings.repetitions,
        "disable_verification": not settings.verify,
    }


def _agent(agent: AgentSpec, settings: Settings) -> dict[str, Any]:
    parameters = {name: value for name, value in agent.parameters.items() if name != "files"}
    return {
        "name": agent.name,
        "harness": agent.harness,
        **_set(
            model=_escaped(agent.model),
            parameters=parameters,
            system_prompt=agent.system_prompt,
            client=dict(agent.client),
            files=[settings.below_root(path) for path in agent.files],
        ),
    }


def _set(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def _escaped(text: str | None) -> str | None:
    return text and text.replace("$", "$$")


def _filled_in(value: Any, where: str, scrubber: Scrubber) -> Any:
    """Return JSON-like data with its variables filled in, but for those that are secret."""
    if isinstance(value, dict):
        return {key: _filled_in(item, where, scrubber) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled_in(item, where, scrubber) for item in value]
    if not isinstance(value, str):
        return value
    expanded = str(expand_in(value, where))
    return _escaped(expanded) if scrubber.text(expanded) == expanded else value
