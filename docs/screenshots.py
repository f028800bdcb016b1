"""Take the README's screenshots of the HTML report, from a run of the shipped tasks.

Run ``python docs/screenshots.py [DIRECTORY]``; it writes ``docs/images`` by default. Three scripted
models answer from the golden outputs of the tasks, each with more mistakes than the one before, so
that the run needs no key. It takes about a minute and needs Chromium and the extra ``dev``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
# By name: of ten tasks, how many a model gets right.
MODELS = {"careful": 9, "quick": 6, "guessing": 3}
COLOURS = 128  # a third of the size, and no difference that can be seen
PRICE = {"input": 3, "output": 15}


def answer(task: Path, kind: str) -> str | None:
    """Return a golden output of a task, if it is one JSON object."""
    path = task / f"tests/fixtures/golden_{kind}.md"
    found = re.findall(r"```json\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    return found[0] if len(found) == 1 and found[0].count("\n") == 1 else None


def conversation(task: Path, output: str) -> dict[str, object]:
    """Return what a model says and does about a task."""
    title = (task / "instruction.md").read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    words = len(title) * 7
    write = {"path": "/workspace/output.jsonl", "content": output}
    return {
        "when": title,
        "replies": [
            {
                "text": "I look at what is given first.",
                "tool_calls": [{"name": "bash", "arguments": {"command": "pwd && ls -la"}}],
                "usage": {"input": 900 + words, "output": 60},
            },
            {
                "text": "I have worked out every value that is asked for and write the result.",
                "tool_calls": [{"name": "write_file", "arguments": write}],
                "usage": {"input": 1300 + words, "output": 180 + words},
            },
            {"tool_calls": [{"name": "submit"}], "usage": {"input": 1600 + words, "output": 15}},
        ],
    }


def write_project(root: Path) -> None:
    """Write a project with the tasks that a script can solve, the scripts and an experiment."""
    found = sorted(path.parent for path in (ROOT / "tasks").glob("*/*/task.toml"))
    tasks = [task for task in found if answer(task, "pass") and answer(task, "fail")]
    for task in tasks:
        shutil.copytree(task, root / task.relative_to(ROOT))
    agents = []
    (root / "scripts").mkdir()
    for name, right in MODELS.items():
        said = [
            conversation(task, answer(task, "pass" if 7 * number % 10 < right else "fail") or "")
            for number, task in enumerate(tasks)
        ]
        script = {"price": PRICE, "conversations": said}
        (root / f"scripts/{name}.json").write_text(json.dumps(script), encoding="utf-8")
        model = f"scripted:scripts/{name}.json"
        agents.append({"name": name, "harness": "tool_loop", "model": model})
    experiment = {"name": "example", "agents": agents, "compute": {"backend": "local"}}
    (root / "experiment.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")
    (root / "aec-bench.toml").touch()


def run(root: Path) -> Path:
    """Run the trials and return the report."""
    options = ["--aec-experiment=experiment.yaml", "--aec-html=report.html", "-q"]
    options.append("--aec-experiment-id=example")
    command = [sys.executable, "-m", "pytest", "tasks", *options]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if not (root / "report.html").is_file():
        raise SystemExit(done.stdout + done.stderr)
    return root / "report.html"


def take(report: Path, directory: Path) -> None:
    """Write a picture of the leaderboard, of the matrix and of a trial."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    directory.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            viewport={"width": 1180, "height": 760}, color_scheme="light", offline=True
        )
        for name, fragment in {
            "leaderboard": "leaderboard",
            "matrix": "matrix",
            "trial": "agent=quick&outcome=failed",
        }.items():
            page.goto("about:blank")
            page.goto(f"{report.as_uri()}#{fragment}")
            page.wait_for_selector("html[data-ready]")
            if name == "trial":
                page.locator(".virtual tbody a").first.click()
                page.wait_for_selector("#single h2:focus")
            path = directory / f"{name}.png"
            page.screenshot(path=path)
            with Image.open(path) as picture:
                picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
        browser.close()


def main() -> None:
    """Take the screenshots."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/images"
    with tempfile.TemporaryDirectory() as name:
        write_project(Path(name))
        take(run(Path(name)), directory.resolve())


if __name__ == "__main__":
    main()
