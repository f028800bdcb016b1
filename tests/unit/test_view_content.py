"""What the viewer tells: the figures of reports, news at once, and damage where there is some."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.errors import BackendError
from pytest_aecbench.ledger import journal
from pytest_aecbench.ledger.index import open_index
from pytest_aecbench.ledger.index_file import index_path
from pytest_aecbench.ledger.store import Ledger
from pytest_aecbench.reports.html.columns import columns
from pytest_aecbench.reports.html.page import render_figures
from pytest_aecbench.reports.html.source import Figures, Source
from pytest_aecbench.reports.html.tasks import task_pages
from pytest_aecbench.view.lease import Lease, find_viewer, viewers_directory
from pytest_aecbench.view.serving import running_viewer
from tests.ledgers import records
from tests.tables import tables
from tests.unit.test_record import a_record
from tests.viewers import Client, make_project, serving


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    make_project(tmp_path)
    with serving(tmp_path) as made:
        yield made


def wait_for(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def ledger_of(client: Client) -> Path:
    return client.viewer.lease.ledger_root


def changes(client: Client, experiment: str = "nightly") -> Any:
    return client.ask(f"/api/e/{experiment}/changes").json


def test_pages_from_the_index_are_those_from_records(tmp_path: Path) -> None:
    made = make_project(tmp_path, 90)
    with open_index(tmp_path / "artefacts/ledger") as index:
        entries = index.changes(None, "nightly", whole=True).entries
    figures = [Figures(Source(one)) for one in (made, entries)]
    assert [len(one.attempts) for one in figures] == [90, 90]
    assert columns(figures[0]) == columns(figures[1])
    assert task_pages(figures[0]) == task_pages(figures[1])
    assert render_figures(figures[0]) == render_figures(figures[1])


def test_the_page_has_every_section_and_no_data_besides(client: Client) -> None:
    html = client.ask("/api/e/nightly/page").json["html"]
    found = tables(html.encode())
    assert len(found.sections) == 10
    assert "application/gzip" not in html
    assert "publish" not in html


def test_a_comparison_is_part_of_the_page(client: Client) -> None:
    for record in records(30, experiment="before", seed=4):
        Ledger(ledger_of(client)).append(record)
    html = client.ask("/api/e/nightly/page?baseline=before").json["html"]
    assert "nightly compared with before" in html
    assert client.ask("/api/e/nightly/page?baseline=none").status == 404


def test_a_new_record_is_told_at_the_next_question(client: Client) -> None:
    before = changes(client)
    assert before == changes(client)
    record = next(iter(records(1, seed=9)))
    Ledger(ledger_of(client)).append(record)
    after = changes(client)
    assert (after["n"], after["mark"] != before["mark"]) == (31, True)
    assert client.ask("/api/e/nightly/columns").json["mark"] == after["mark"]
    (ledger_of(client) / "nightly" / f"{record.trial_id}.json").unlink()
    assert changes(client)["n"] == 30


def test_experiments_are_listed_the_latest_first(client: Client) -> None:
    wait_until_read(client)
    (one,) = client.ask("/api/experiments").json["experiments"]
    assert one["name"] == "nightly"
    assert sum(one["outcomes"].values()) == 30
    assert one["running"] == 0


def wait_until_read(client: Client) -> None:
    wait_for(lambda: not client.ask("/api/experiments").json["reading"])


def test_a_trial_is_found_by_the_beginning_of_its_id(client: Client) -> None:
    ids = sorted(path.stem for path in (ledger_of(client) / "nightly").glob("*.json"))
    for length in (8, 20, 36):
        (found,) = client.ask(f"/api/find/{ids[3][:length]}").json["found"]
        assert (found["trial"], found["experiment"]) == (ids[3], "nightly")
    twin = ids[3][:20] + uuid.uuid4().hex[:3] + ids[3][23:]
    Ledger(ledger_of(client)).append(a_record(trial_id=twin, experiment_id="other"))
    found = client.ask(f"/api/find/{ids[3][:10]}").json["found"]
    assert {one["trial"] for one in found} == {ids[3], twin}
    assert client.ask("/api/find/ffffffff").json["found"] == []
    for bad in ("fffffff", "x" * 8, "ffffffff%25", "FFFFFFFF", "f" * 40):
        assert client.ask(f"/api/find/{bad}").status == 404


BEGIN = """
import os, signal, sys
from pathlib import Path
from pytest_aecbench.ledger import journal
from pytest_aecbench.ledger.record import TrialRecord
record = TrialRecord.from_json(Path(sys.argv[2]).read_bytes())
journal.begin(Path(sys.argv[1]), record)
journal.enter(Path(sys.argv[1]), record.experiment_id, record.trial_id, "agent")
print("begun", flush=True)
signal.pause()
"""


@pytest.fixture
def under_way(client: Client, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    record = next(one for one in records(200, seed=77) if one.evaluation.error)
    path = tmp_path / "begun.json"
    path.write_bytes(record.to_json())
    argv = [sys.executable, "-c", BEGIN, str(ledger_of(client)), str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        yield record.trial_id, process
        process.kill()


def test_a_trial_under_way_is_told_with_its_phase_and_its_death(
    client: Client, under_way: tuple[str, subprocess.Popen[str]]
) -> None:
    trial_id, process = under_way
    (one,) = changes(client)["under_way"]
    assert (one["trial"], one["phase"], one["dead"]) == (trial_id, "agent", False)
    assert one["seconds"] > 0
    assert client.ask(f"/api/t/nightly/{trial_id}").json["under_way"]["phase"] == "agent"
    (found,) = client.ask(f"/api/find/{trial_id[:8]}").json["found"]
    assert found["outcome"] == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: changes(client)["under_way"][0]["dead"])
    journal.recover(ledger_of(client))
    after = changes(client)
    assert (after["under_way"], after["n"]) == ([], 31)


def plan(client: Client, run_id: str, trials: int) -> None:
    path = client.viewer.content.settings.jobs_root / "nightly" / f"{run_id}.plan.json"
    path.write_text(json.dumps({"run_id": run_id, "trials": ["x"] * trials, "reused": {"y": "z"}}))


def test_the_plan_says_how_many_trials_there_are_to_be(client: Client) -> None:
    plan(client, "20260412T093000-5d2a", 60)
    (run,) = changes(client)["runs"]
    assert run == {"run": "20260412T093000-5d2a", "state": "over", "done": 31, "of": 60}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"run_id": 1}', '{"trials": 3}'])
def test_a_damaged_plan_is_passed_over(client: Client, text: str) -> None:
    jobs = client.viewer.content.settings.jobs_root
    (jobs / "nightly/torn.plan.json").write_text(text)
    os.mkfifo(jobs / "nightly/pipe.plan.json")
    assert changes(client)["runs"] == []


def test_a_trajectory_grows_by_whole_lines(client: Client) -> None:
    trial_id = str(uuid.uuid4())
    address = f"/api/t/nightly/{trial_id}/trajectory"
    assert client.ask(address).json == {"entries": [], "next": 0, "problems": []}
    path = client.viewer.content.settings.jobs_root / f"nightly/{trial_id}/agent/trajectory.jsonl"
    path.parent.mkdir(parents=True)
    header = '{"version": 1, "format": "aec-bench-trajectory"}\n'
    first = json.dumps({"role": "assistant", "content": "\u202eone", "turn": 1})
    path.write_text(f"{header}{first}\n" + first[:30])
    found = client.ask(address).json
    assert [entry["text"] for entry in found["entries"]] == ["\\u202eone"]
    assert found["next"] == len(header) + len(first) + 1
    assert client.ask(f"{address}?from={found['next']}").json["entries"] == []
    path.write_text(f"{header}{first}\n{first}\nnot an entry\n")
    more = client.ask(f"{address}?from={found['next']}").json
    assert len(more["entries"]) == 1
    assert more["next"] == path.stat().st_size
    odd = {"role": "tool_call", "tool_name": "bash", "arguments": {"x": float("inf")}}
    path.write_text(f"{header}{json.dumps(odd)}\n")
    assert b"Infinity" not in client.ask(address).body
    path.write_text("x" * (5 << 20))
    assert client.ask(address).json["problems"] == ["a line that is too long is left out"]


def test_torn_and_unknown_records_are_told_and_the_rest_is_there(client: Client) -> None:
    directory = ledger_of(client) / "nightly"
    some = sorted(directory.glob("*.json"))[0]
    data = json.loads(some.read_bytes())
    (directory / f"{uuid.uuid4()}.json").write_bytes(some.read_bytes()[:300])
    newer = str(uuid.uuid4())
    (directory / f"{newer}.json").write_text(
        json.dumps({**data, "trial_id": newer, "schema_version": 99})
    )
    os.mkfifo(directory / f"{uuid.uuid4()}.json")
    html = client.ask("/api/e/nightly/page").json["html"]
    assert html.count("; skipped") == 3
    assert changes(client)["problems"] == 3
    assert client.ask("/api/e/nightly/columns").json["n"] == 30
    assert "schema" in client.ask(f"/api/t/nightly/{newer}").json["problem"]


def test_a_trial_whose_files_are_gone_says_so(client: Client) -> None:
    trial_id = sorted((ledger_of(client) / "nightly").glob("*.json"))[0].stem
    shutil.rmtree(client.viewer.content.settings.jobs_root / "nightly" / trial_id)
    detail = client.ask(f"/api/t/nightly/{trial_id}").json
    assert detail["problems"] == ["the files of this trial are not there any more"]
    assert detail["listed"] == []
    assert detail["instruction"].startswith("Size the conductor")


def test_a_ledger_that_is_removed_while_it_is_served_is_empty_and_may_come_back(
    client: Client, tmp_path: Path
) -> None:
    assert changes(client)["n"] == 30
    ledger_of(client).rename(tmp_path / "away")
    assert client.ask("/api/e/nightly/page").status == 404
    wait_until_empty(client)
    ledger_of(client).write_text("a file, not a directory")
    assert client.ask("/api/e/nightly/changes").status == 404
    assert client.ask("/api/find/ffffffff").status == 503
    assert "is not a directory" in client.ask("/api/find/ffffffff").json["problem"]
    ledger_of(client).unlink()
    (tmp_path / "away").rename(ledger_of(client))
    assert changes(client)["n"] == 30


def wait_until_empty(client: Client) -> None:
    wait_for(lambda: not client.ask("/api/experiments").json["experiments"])


@pytest.mark.parametrize("harm", ["removed", "truncated", "garbage", "read-only"])
def test_an_index_that_is_harmed_is_made_anew(
    tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    with serving(tmp_path) as client:
        assert changes(client)["n"] == 30
    path = index_path(tmp_path / "artefacts/ledger")
    assert path is not None
    if harm == "removed":
        shutil.rmtree(path.parent)
    elif harm == "truncated":
        os.truncate(path, 5000)
    elif harm == "garbage":
        path.write_bytes(os.urandom(9000))
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    with serving(tmp_path) as one, serving(tmp_path) as two:
        for client in (one, two):
            assert changes(client)["n"] == 30
            assert client.ask("/api/e/nightly/page").status == 200
            assert len(client.ask("/api/experiments").json["experiments"]) in (0, 1)


def test_secrets_are_removed_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_project(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecretvalue0123456789")
    broken = next(one for one in made if one.evaluation.error)
    path = tmp_path / f"artefacts/ledger/nightly/{broken.trial_id}.json"
    path.write_text(
        path.read_text().replace("gave up after", "got sk-verysecretvalue0123456789 after")
    )
    with serving(tmp_path) as client:
        for what in ("page", "columns", "tasks"):
            assert b"verysecret" not in client.ask(f"/api/e/nightly/{what}").body
        reply = client.ask(f"/api/t/nightly/{broken.trial_id}")
        assert reply.status == 200
        assert b"verysecret" not in reply.body


def test_a_lease_is_for_its_user_alone_and_ends_with_the_viewer(client: Client) -> None:
    found = find_viewer(ledger_of(client))
    assert found is not None
    assert (found.address, found.token) == (
        client.viewer.lease.address,
        client.viewer.lease.token,
    )
    assert running_viewer(ledger_of(client)) == found
    path = viewers_directory() / f"{os.getpid()}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(viewers_directory().parent.stat().st_mode) == 0o700
    assert find_viewer(ledger_of(client).parent) is None
    for other in viewers_directory().glob("open-*"):
        assert stat.S_IMODE(other.stat().st_mode) == 0o600


def test_a_stale_or_damaged_lease_is_ignored(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    script = (
        "import sys; from pathlib import Path; from pytest_aecbench.view.lease import Lease\n"
        "Lease(Path(sys.argv[1]), 'http://127.0.0.1:1', 'x').write()"
    )
    subprocess.run([sys.executable, "-c", script, str(root)], check=True)
    damaged = [viewers_directory() / f"damaged-{n}.json" for n in range(3)]
    for path, text in zip(damaged, ("", "[]", '{"address": 1}'), strict=True):
        path.write_text(text)
    try:
        assert find_viewer(root) is None
    finally:
        for path in damaged:
            path.unlink()
    written = Lease(root, "http://127.0.0.1:1", "x").write()
    try:
        assert find_viewer(root) is not None  # its process lives, but nothing answers there
        assert running_viewer(root) is None
    finally:
        written.unlink()


def test_a_shared_directory_that_is_not_ours_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(BackendError, match="cannot be used"):
        find_viewer(tmp_path)
