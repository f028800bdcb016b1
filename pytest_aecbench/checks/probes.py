"""Probes that find out whether a sandbox shares files with the host."""

from __future__ import annotations

import os
import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = ["shares_host_files", "writes_to_host"]

# Writes a file to every directory of programs, modules and settings, and prints their paths.
_LEAVE = r"""
IFS=: read -ra path <<<"$PATH"
while IFS= read -r dir; do path+=("$dir"); done < <(python3 -c '
import json, os, site, sys
print(os.path.dirname(os.path.dirname(json.__file__)), site.getusersitepackages(), sep="\n")
print(*sys.path, sep="\n")
' 2>/dev/null)
for dir in "${path[@]}" "$HOME" /etc /opt /tmp /usr/bin /usr/local/bin; do
  [[ $dir == /* ]] && (: > "$dir/$name") 2>/dev/null && printf '%s\n' "$dir/$name"
done
"""
_REMOVE = 'while IFS= read -r file; do rm -f -- "$file"; done <<<"$files"'


def shares_host_files(sandbox: Sandbox) -> bool:
    """Return whether the sandbox sees the host's files."""
    installed = shlex.quote(str(Path(pluggy.__file__).resolve()))
    return sandbox.execute(f"test -e {installed}").returncode == 0


def writes_to_host(sandbox: Sandbox) -> bool:
    """Return whether the sandbox can change the host's own programs and settings."""
    name = f".aecbench-{secrets.token_hex(8)}"
    left = sandbox.execute(_LEAVE, env={"name": name}).stdout
    try:
        return any(os.path.lexists(path) for path in left.splitlines())
    finally:
        sandbox.execute(_REMOVE, env={"files": left})
