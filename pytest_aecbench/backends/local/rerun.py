"""The ``rerun`` script of a kept local sandbox, which runs its last command again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from pytest_aecbench.backends import BackendExecutionRequest
from pytest_aecbench.backends.shared.shell import tool_env

if TYPE_CHECKING:
    from pytest_aecbench.backends.local.namespaces import NamespaceSandbox
    from pytest_aecbench.backends.local.rewriting import RewritingSandbox

__all__ = ["rerun_script", "verifies"]

_RESULTS = "/logs/verifier"


def verifies(request: BackendExecutionRequest | None) -> bool:
    """Return whether the request is a verifier's, which starts with no results."""
    return request is not None and _RESULTS in request.uploads


def rerun_script(
    sandbox: NamespaceSandbox | RewritingSandbox, request: BackendExecutionRequest | None
) -> str:
    """Return a script that runs the request's command again, or the command given to it.

    A verifier starts with no results, as it did the first time, and its reward is shown.
    """
    request = request or BackendExecutionRequest("bash")
    words = sandbox.reentry(request)
    lines = [
        "#!/usr/bin/env bash",
        *(f"export {name}={shlex.quote(value)}" for name, value in tool_env().items()),
        f'(( $# )) && exec {shlex.join(words)} "$@"',
    ]
    results = sandbox.layout.home / _RESULTS.lstrip("/")
    if verifies(request):
        lines.append(f"find {shlex.quote(str(results))} -mindepth 1 -delete")
    again = sandbox.rewrite(request.command) if sandbox.rewrite else request.command
    lines.append(shlex.join([*words, "bash", "-c", "--", again]))
    lines.append("code=$?")
    if verifies(request):
        lines.append(f"head -v -- {shlex.quote(str(results))}/reward.*")
    return "\n".join([*lines, "exit $code", ""])
