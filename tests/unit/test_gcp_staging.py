"""A trial's files from the bucket: whole archives are results, and torn ones are not."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from pytest_aecbench.backends import BackendExecutionRequest, Limits, TrialRequest
from pytest_aecbench.backends.gcp.staging import read_outcome
from pytest_aecbench.backends.shared.output import OUTPUT_CAP
from pytest_aecbench.errors import BackendError

COMMAND = BackendExecutionRequest("true")
DONE = "nonce ended 3 0 0 4 = 0 =\n"


def request(directory: Path, verifier_image: str | None = None) -> TrialRequest:
    workspace = directory / "trial/workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    return TrialRequest("t", "image", workspace, COMMAND, COMMAND, Limits(), verifier_image)


def archive(*phases: str, **files: str) -> bytes:
    """Return what a runnable leaves: results, files, and ``done`` of the last phase at the end.

    ``files`` are other contents of the results' files.
    """
    entries: dict[str, str | None] = dict.fromkeys((*phases, "logs", "logs/agent", "workspace"))
    entries |= {"logs/agent/trace": "x", "workspace/output.jsonl": "{}\n"}
    for phase in phases:
        own = {"out": "said", "err": "", "times": "1.5 4\n", "done": DONE, **files}
        entries |= {f"{phase}/{name}": text for name, text in own.items()}
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, text in entries.items():
            entry = tarfile.TarInfo(name)
            if text is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            entry.size = len(text or "")
            tar.addfile(entry, BytesIO((text or "").encode()))
    return file.getvalue()


def test_both_archives_together_are_an_outcome(tmp_path: Path) -> None:
    trial = request(tmp_path, "image")
    files = BytesIO(archive("agent")), BytesIO(archive("verify"))
    outcome = read_outcome(trial, *files, tmp_path / "home")
    assert outcome.verifier is not None
    assert [(one.returncode, one.stdout) for one in (outcome.agent, outcome.verifier)] == [
        (3, "said")
    ] * 2
    assert outcome.timing == {"agent": 2.5, "verify": 2.5}
    assert (trial.workspace_dir / "output.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize(("torn", "whose"), [("agent", "agent's"), ("verify", "verifier's")])
def test_an_archive_that_was_cut_off_is_no_result(tmp_path: Path, torn: str, whose: str) -> None:
    """``done`` is its last entry, so wherever the archive ends, it is seen to be torn."""
    whole = {phase: archive(phase) for phase in ("agent", "verify")}
    end = whole[torn].index(DONE.encode()) + len(DONE)
    for size in (*range(0, end, 512), end - 1):
        files = {**whole, torn: whole[torn][:size]}
        home = tmp_path / f"home-{size}"
        with pytest.raises(BackendError, match=f"ended without the {whose} result"):
            read_outcome(
                request(tmp_path, "image"),
                BytesIO(files["agent"]),
                BytesIO(files["verify"]),
                home,
            )


def test_a_shared_verifier_that_did_not_end_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="without the verifier's result"):
        read_outcome(request(tmp_path), BytesIO(archive("agent")), None, tmp_path / "home")
    again = BytesIO(archive("agent", "verify"))
    assert read_outcome(request(tmp_path), again, None, tmp_path / "again").verifier is not None


@pytest.mark.parametrize("times", ["0 inf", "-inf 0", "inf inf", "0 nan", "0 1e308", "0", "a b"])
def test_times_that_no_command_can_take_are_no_result(tmp_path: Path, times: str) -> None:
    forged = BytesIO(archive("agent", times=times))
    with pytest.raises(BackendError, match="without the agent's result"):
        read_outcome(request(tmp_path), forged, None, tmp_path / "home")


def test_a_clock_that_was_set_back_makes_a_command_take_no_time(tmp_path: Path) -> None:
    files = BytesIO(archive("agent", "verify", times="4 1.5\n"))
    outcome = read_outcome(request(tmp_path), files, None, tmp_path / "home")
    assert outcome.timing == {"agent": 0, "verify": 0}


def test_of_a_forged_output_no_more_is_read_than_a_command_leaves(tmp_path: Path) -> None:
    forged = archive("agent", "verify", out="x" * OUTPUT_CAP + "more", err="y" * 3 * OUTPUT_CAP)
    outcome = read_outcome(request(tmp_path), BytesIO(forged), None, tmp_path / "home")
    streams = outcome.agent.stdout, outcome.agent.stderr
    assert [len(stream) for stream in streams] == [OUTPUT_CAP, OUTPUT_CAP]
