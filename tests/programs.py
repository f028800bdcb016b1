"""Programs that tests compare with or start, installed once for all runs of this environment.

They are installed below the environment of Python, which sandboxes of the local backend can see;
a temporary directory they cannot.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from pytest_aecbench.agents.recipes.claude_code import ClaudeCodeAgent
from pytest_aecbench.agents.recipes.codex import CodexAgent
from pytest_aecbench.agents.recipes.mini_swe_agent import MiniSweAgent

_HOME = Path(sys.prefix, "share", "aecbench-agents")
# harness -> its recipe's version, the program's path below the installation, what installs it
_NPM = {
    "claude-code": (ClaudeCodeAgent.version, "@anthropic-ai/claude-code"),
    "codex": (CodexAgent.version, "@openai/codex"),
}
# what is installed by pip -> its version, and what else it needs
_PIP = {
    "mini-swe-agent": (MiniSweAgent.version, ("mcp<3",)),
    # The recursive harness with which ours is compared.
    "rlms": ("0.1.3", ()),
}


def directory_of(harness: str) -> Path:
    """Return the directory with the programs of an agent, installed at a fixed version."""
    _HOME.mkdir(parents=True, exist_ok=True)
    with FileLock(_HOME / f"{harness}.lock"):
        if harness in _NPM:
            return _from_npm(harness, *_NPM[harness])
        return _from_pip(harness, *_PIP[harness])


def _from_npm(harness: str, version: str, package: str) -> Path:
    home = _HOME / f"{harness}-{version}"
    if not (home / "done").exists():
        _run("npm", "install", "--prefix", str(home), f"{package}@{version}")
        (home / "done").touch()
    return home / "node_modules/.bin"


def _from_pip(harness: str, version: str, needs: tuple[str, ...]) -> Path:
    home = _HOME / f"{harness}-{version}"
    if not (home / "done").exists():
        _run(sys.executable, "-m", "venv", "--clear", str(home))
        _run(str(home / "bin/pip"), "install", "-q", f"{harness}=={version}", *needs)
        (home / "done").touch()
    return home / "bin"


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
