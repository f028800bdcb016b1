"""What all backends that rent sandboxes share keeps the contract, also where calls go wrong."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_aecbench.backends import BackendExecutionRequest
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.remote import RemoteBackend, box, calls
from pytest_aecbench.backends.remote.calls import Busy, Lost
from pytest_aecbench.errors import BuildError, LaunchError, SandboxBroken, SandboxGone
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.testing import BackendConformance, RunningSandbox
from pytest_aecbench.testing.sandbox import Launch
from tests.conformance.conftest import write_context
from tests.conformance.disks import on_small_disk
from tests.conformance.runs import wait_until
from tests.standins.direct import DirectVendor
from tests.standins.executor import Executor

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def vendor() -> Iterator[DirectVendor]:
    executor = Executor(LocalBackend("namespaces"))
    yield DirectVendor(executor)
    executor.close()


def make_backend(vendor: DirectVendor) -> RemoteBackend:
    class DirectBackend(RemoteBackend):
        @staticmethod
        def make_vendor(options: Mapping[str, object]) -> DirectVendor:
            return vendor

    return DirectBackend()


@pytest.fixture
def backend(vendor: DirectVendor) -> RemoteBackend:
    return make_backend(vendor)


class TestRemote(BackendConformance):
    # Only a command inside can end processes there, and it would be stopped as well; it is waited
    # for longer than a test should take.
    test_a_process_that_stops_all_others_is_ended = None  # type: ignore[assignment]

    @pytest.fixture
    def backend(self, vendor: DirectVendor) -> RemoteBackend:
        return make_backend(vendor)

    @pytest.fixture
    def launch_on_small_disk(
        self,
        request: pytest.FixtureRequest,
        vendor: DirectVendor,
        tmp_path_factory: pytest.TempPathFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Launch]:
        with on_small_disk(vendor.executor, tmp_path_factory.mktemp("disk")):
            monkeypatch.setattr(box, "_REQUESTS", "/tests")  # their /tmp is in memory
            yield request.getfixturevalue("launch")


@pytest.fixture
def sandbox(backend: RemoteBackend, tmp_path: Path) -> Iterator[RunningSandbox]:
    image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task"))
    (tmp_path / "trial/workspace").mkdir(parents=True)
    workspace_dir = tmp_path / "trial/workspace"
    handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir)
    yield RunningSandbox(backend, handle, workspace_dir)
    backend.teardown(handle=handle)


def test_a_trial_takes_few_calls(sandbox: RunningSandbox, vendor: DirectVendor) -> None:
    sandbox.output("echo agent > output", exclusive=True)
    sandbox.output("echo 1 > /logs/verifier/reward.txt", exclusive=True)
    sandbox.collect()
    sandbox.teardown()
    assert vendor.calls == ["build", "create", *["write", "run"] * 3, "kill"]


def test_a_command_whose_connection_is_lost_is_not_sent_again(
    sandbox: RunningSandbox, vendor: DirectVendor
) -> None:
    vendor.after["run"] = [Lost("direct: dropped")]
    assert sandbox.output("echo once >> times; cat times") == "once\n"
    assert vendor.calls.count("run") == 1


def test_an_answer_that_is_cut_short_is_read_from_its_file(
    sandbox: RunningSandbox, vendor: DirectVendor
) -> None:
    vendor.after["run"] = [Lost("direct: dropped")]
    vendor.before["read"] = [Busy("direct: 503"), Lost("direct: dropped")]
    assert sandbox.output("printf '%300000s' x") == "x".rjust(300_000)


def test_a_sandbox_that_dies_with_its_connection_is_gone(
    sandbox: RunningSandbox, vendor: DirectVendor
) -> None:
    vendor.executor.kill(sandbox.handle.handle_id)
    vendor.before["run"] = vendor.before["write"] = [Lost("direct: dropped")]
    with pytest.raises(SandboxGone):
        sandbox.run("true")


def test_a_busy_vendor_is_asked_again(
    backend: RemoteBackend, vendor: DirectVendor, tmp_path: Path
) -> None:
    vendor.before["build"] = [Busy("direct: 429", 0.1)] * 2
    vendor.before["create"] = [Busy("direct: 503")] * 2
    image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task"))
    handle = backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path)
    vendor.before["kill"] = [Busy("direct: 503"), Lost("direct: dropped")]
    backend.teardown(handle=handle)
    assert vendor.calls == ["build"] * 3 + ["create"] * 3 + ["kill"] * 3


def test_a_vendor_that_stays_busy_is_a_launch_error(
    backend: RemoteBackend,
    vendor: DirectVendor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task"))
    monkeypatch.setattr(calls, "PATIENCE_SEC", 1)
    vendor.before["create"] = [Busy("direct: 429 too many sandboxes")] * 100
    with pytest.raises(LaunchError, match="too many sandboxes"):
        backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path)


@pytest.mark.parametrize("shell", ["bash", "env -i bash"])
def test_a_deadline_spares_other_commands_and_no_own_one(
    sandbox: RunningSandbox, shell: str
) -> None:
    here = ": && cd /workspace"
    endless = f"{shell} -c '{here}; sleep 1000 & echo $! >pid; touch one; wait; true'; true"
    waiting = f"{shell} -c '{here}; touch two; until [ -e go ]; do sleep 0.1; done; echo lived'"
    gone = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done"
    sandbox.output("true")
    with ThreadPoolExecutor(2) as threads:
        ended = threads.submit(sandbox.run, endless, timeout_sec=3)
        sandbox.output("until [ -e one ]; do sleep 0.1; done")
        other = threads.submit(sandbox.run, f"{waiting}; true")
        sandbox.output("until [ -e two ]; do sleep 0.1; done")
        assert ended.result().timed_out
        sandbox.output(f"{gone}; touch go", timeout_sec=10)
        assert other.result().stdout == "lived\n"


def test_commands_that_start_at_a_deadline_of_another_live_on(sandbox: RunningSandbox) -> None:
    sandbox.output("true")
    with ThreadPoolExecutor(3) as threads:
        for _ in range(3):
            ended = threads.submit(sandbox.run, "sleep 1000", timeout_sec=0.5)
            while not ended.done():
                started = [threads.submit(sandbox.run, "/bin/true; echo lived") for _ in "ab"]
                assert [one.result().stdout for one in started] == ["lived\n"] * 2
            assert ended.result().timed_out


# Answers that an agent which is root can make up: the kind of answer, and the answer.
MADE_UP = {
    "exit code of letters": ("ended", "ended abc 0 1 0 = 0 ="),
    "exit code over 255": ("ended", "ended 256 0 1 0 = 0 ="),
    "size of 5,000 digits": ("ended", f"ended 0 0 1 {'9' * 5000} = 0 ="),
    "start time with a command": ("ended", "ended 0 0 a[$(id)0] 0 = 0 ="),
    "output that is no base64": ("ended", "ended 0 0 1 0 =\u00e9 0 ="),
    "output that is missing": ("ended", "ended 0 0 1 5 5 0 ="),
    "a field too few": ("packed", "packed none"),
    "an archive that is no base64": ("packed", "packed =\u00e9 none"),
    "an archive of 5,000 digits": ("packed", f"packed {'9' * 5000} none"),
    "an archive that is missing": ("packed", "packed 5 none"),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_an_answer_that_an_agent_has_made_up_is_its_own_doing(
    sandbox: RunningSandbox, name: str
) -> None:
    kind, answer = MADE_UP[name]
    sandbox.output("true")
    with suppress(SandboxBroken):  # the first answer of its own kind is this command's
        sandbox.run(f"""cat >/usr/local/sbin/mv <<'END'
#!/bin/bash
read -r nonce kind rest <.done
[[ $kind = {kind} ]] || exec /bin/mv "$@"
rm -f out logs.tar
echo "$nonce "{shlex.quote(answer)}
kill -KILL $PPID
END
chmod 755 /usr/local/sbin/mv""")
    with pytest.raises(SandboxBroken):
        sandbox.run("true") if kind == "ended" else sandbox.collect()


def test_a_start_that_is_not_confirmed_leaves_nothing(
    backend: RemoteBackend, vendor: DirectVendor, tmp_path: Path
) -> None:
    image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task"))
    vendor.after["create"] = [Lost("direct: no answer")]
    with pytest.raises(LaunchError, match="no answer"):
        backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path)
    assert vendor.calls.count("create") == 1
    assert vendor.labels == {}


@pytest.mark.parametrize(("seconds", "patience"), [(2, 30), (2, 0)])
def test_a_start_that_is_given_up_and_comes_late_leaves_nothing(
    backend: RemoteBackend,
    vendor: DirectVendor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    patience: int,
) -> None:
    image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task"))
    monkeypatch.setattr("pytest_aecbench.backends.remote.backend._CREATE_SEC", 0.5)
    monkeypatch.setattr("pytest_aecbench.backends.remote.backend._LATE_START_SEC", patience)
    vendor.gates["create"] = threading.Event()
    late = threading.Timer(seconds, vendor.gates["create"].set)
    late.start()
    with pytest.raises(LaunchError, match="no answer"):
        backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path)
    assert late.is_alive() is (patience == 0)
    wait_until(lambda: "kill" in vendor.calls and not vendor.labels)
    late.join()


def test_only_what_dead_runs_left_is_reaped(
    backend: RemoteBackend, vendor: DirectVendor, sandbox: RunningSandbox
) -> None:
    ours = vendor.labels[sandbox.handle.handle_id]
    program = (
        "import json; from pytest_aecbench.host.owner import Owner; "
        "print(json.dumps(Owner.current().labels()))"
    )
    dead = subprocess.check_output([sys.executable, "-c", program])
    vendor.labels["dead"] = {**ours, **json.loads(dead)}
    vendor.labels["elsewhere"] = {**ours, "aecbench.boot": "another"}
    vendor.labels["elsewhere, long ago"] = {
        **ours, "aecbench.boot": "another", "aecbench.expires": "1"
    }  # fmt: skip
    vendor.labels["older version"] = {
        name: label
        for name, label in {**ours, "aecbench.pid": "0"}.items()
        if name not in ("aecbench.machine", "aecbench.namespace")
    }
    vendor.labels["another's"] = {"name": "theirs"}
    assert Owner.from_labels(ours) == Owner.current()
    assert backend.reap(dry_run=True) == ["dead", "elsewhere, long ago"]
    assert len(vendor.labels) == 6
    assert backend.left_alone == ["elsewhere", "older version"]
    assert backend.reap() == ["dead", "elsewhere, long ago"]
    assert set(vendor.labels) == {
        sandbox.handle.handle_id, "elsewhere", "older version", "another's"
    }  # fmt: skip


def test_the_images_directory_user_and_variables_are_those_of_its_commands(
    backend: RemoteBackend, tmp_path: Path
) -> None:
    dockerfile = "FROM x\nWORKDIR /srv/app\nENV COLOUR=blue\nUSER nobody\n"
    image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task", dockerfile))
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/given").touch()
    handle = backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path / "workspace")
    request = BackendExecutionRequest("pwd; id -un; echo $COLOUR; ls /workspace")
    shown = backend.execute_trial(handle=handle, request=request)
    backend.teardown(handle=handle)
    assert shown.stdout == "/srv/app\nnobody\nblue\ngiven\n", shown


def test_what_cannot_be_built_is_one_line(backend: RemoteBackend, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"nothing to build; add environment/Dockerfile"):
        backend.build_environment(task_dir=tmp_path)
    task_dir = write_context(tmp_path / "task")
    (task_dir / "environment/docker-compose.yaml").write_text("services: {}\n")
    with pytest.raises(BuildError, match="use --aec-backend=docker"):
        backend.build_environment(task_dir=task_dir)
