"""Other Pythons of this machine, from PATH or from pyenv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["find_python"]


@cache
def find_python(*versions: str) -> Path | None:
    """Return an interpreter of the first of these versions that is there."""
    for version in versions:
        for path in _candidates(version):
            done = subprocess.run([path, "-V"], capture_output=True, text=True)
            if done.stdout.startswith(f"Python {version}."):
                return path
    return None


def _candidates(version: str) -> list[Path]:
    own = [Path(sys.executable)] if sys.version.startswith(f"{version}.") else []
    on_path = shutil.which(f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    built = sorted(root.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)
    return [*own, *([Path(on_path)] if on_path else []), *built]
