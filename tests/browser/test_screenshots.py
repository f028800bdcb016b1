"""The README's screenshots can be taken again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs("browser")
def test_the_script_takes_each_picture_that_the_readme_shows(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs/screenshots.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("leaderboard", "matrix", "trial"):
        assert f"docs/images/{name}.png" in readme
        for path in (tmp_path / f"{name}.png", ROOT / f"docs/images/{name}.png"):
            data = path.read_bytes()
            assert data.startswith(PNG)
            assert 10_000 < len(data) < 150_000, path
