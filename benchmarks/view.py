"""Measure the viewer with a large ledger: first and later start, memory, polls, pages, news.

Run ``python benchmarks/view.py [--records N] [--experiments N]`` from the project's directory.
Seconds of the server are CPU time of its process, because machines are shared; the time from a
record to its row is that of the clock. Without Chromium no page is opened.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_aecbench.ledger.store import Ledger
from tests.ledgers import records

POLLS = 50


def make_ledger(root: Path, count: int, experiments: int) -> None:
    """Write so many records, in so many experiments."""
    for number in range(experiments):
        name = f"nightly-{number:03}"
        directory = root / "artefacts/ledger" / name
        directory.mkdir(parents=True)
        for record in records(count // experiments, experiment=name, seed=number):
            (directory / f"{record.trial_id}.json").write_bytes(record.to_json())


class Server:
    """A viewer in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.base, _, self.token = address.partition("/#token=")

    def ask(self, path: str) -> Any:
        """Return what the viewer answers."""
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.base}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def cpu_sec(self) -> float:
        """Return the CPU time that the viewer has taken so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return the most memory that the viewer has had."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1000

    def spend(self, name: str, path: str, times: int = 1) -> Any:
        """Ask so often, and print the CPU time of the server for each."""
        before = self.cpu_sec()
        for _ in range(times):
            found = self.ask(path)
        print(f"{name:36} {1000 * (self.cpu_sec() - before) / times:8.1f} ms")
        return found


@contextmanager
def started(root: Path, name: str) -> Iterator[Server]:
    """Start a viewer, and print how long it takes until it answers and until all is read."""
    argv = [sys.executable, "-m", "pytest_aecbench", "view", "--no-open", "--port", "0"]
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        server = Server(process, process.stdout.readline().strip())
        try:
            server.ask("/api/ping")
            print(f"{name + ' start, until it answers':36} {server.cpu_sec():8.2f} s")
            while server.ask("/api/experiments")["reading"]:
                time.sleep(0.2)
            print(f"{name + ' start, until all is read':36} {server.cpu_sec():8.2f} s")
            yield server
        finally:
            process.terminate()


def measure(server: Server, root: Path) -> None:
    experiment = server.spend("list of experiments", "/api/experiments")["experiments"][0]["name"]
    at = f"/api/e/{experiment}"
    server.spend("columns of an experiment", f"{at}/columns")
    server.spend("figures of an experiment", f"{at}/page")
    server.spend("poll", f"{at}/changes", POLLS)
    trial = next((root / "artefacts/ledger" / experiment).glob("*.json")).stem
    server.spend("a trial", f"/api/t/{experiment}/{trial}", 10)
    server.spend("find a trial", f"/api/find/{trial[:8]}", 10)
    print(f"{'memory at most':36} {server.memory_mb():8.0f} MB")
    if shutil.which("chromium"):
        open_page(server, root, experiment)


def open_page(server: Server, root: Path, experiment: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"{server.base}/e/{experiment}#token={server.token}")
        page.wait_for_selector("html[data-ready]", timeout=120_000)
        metrics = session.send("Performance.getMetrics")["metrics"]
        spent = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
        print(f"{'page ready, main thread':36} {1000 * float(spent):8.0f} ms")
        record = next(iter(records(1)))
        data = record.model_dump(mode="json")
        data |= {"experiment_id": experiment, "trial_id": str(uuid.uuid4())}
        data["task"]["task_id"] = "a-first/one"
        page.mouse.move(5, 5)
        began = time.monotonic()
        Ledger(root / "artefacts/ledger").append(type(record).model_validate(data))
        page.locator(".virtual").get_by_role("link", name="a-first/one").wait_for(timeout=60_000)
        print(f"{'from a record to its row':36} {time.monotonic() - began:8.1f} s")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the viewer.")
    parser.add_argument("--records", type=int, default=100_000, metavar="N")
    parser.add_argument("--experiments", type=int, default=20, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        make_ledger(root, options.records, options.experiments)
        print(f"{options.records} records in {options.experiments} experiments")
        with started(root, "first"):
            pass
        with started(root, "later") as server:
            measure(server, root)


if __name__ == "__main__":
    main()
