"""The fixtures that drive a trial; a conftest.py may override any of them for its directory.

They import what they need when they run, because every pytest run on the machine loads this module.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.host.lanes import Mutex, away, reversible
from pytest_aecbench.plugin.items import SandboxItem
from pytest_aecbench.plugin.nodes import TaskFile
from pytest_aecbench.plugin.state import is_worker, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.agents import Agent, AgentResult
    from pytest_aecbench.agents.installation import Installation
    from pytest_aecbench.backends import ComputeBackend
    from pytest_aecbench.backends.sandbox import Echo, Sandbox
    from pytest_aecbench.checks import Finding
    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.tasks.task import Task
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial


_BUILD = pytest.StashKey[tuple[float, float]]()  # when it began, and how long it took
_AGENT_IMAGES: pytest.StashKey[dict[Installation, str]] = pytest.StashKey()
_AGENT_IMAGES_TURN = pytest.StashKey[Mutex]()


@pytest.fixture(scope="session")
def aec_settings(pytestconfig: pytest.Config) -> Settings:
    """The settings of this run."""
    return settings_of(pytestconfig)


@pytest.fixture(scope="session")
def aec_backend(pytestconfig: pytest.Config) -> ComputeBackend:
    """The backend that trials run on; one per process."""
    from pytest_aecbench.plugin.lookup import backend_of

    return backend_of(pytestconfig)


@pytest.fixture(scope="module")
def aec_task(request: pytest.FixtureRequest) -> Task:
    """The task to attempt."""
    assert isinstance(request.node, TaskFile)
    return request.node.task


@pytest.fixture(scope="module")
def aec_image(request: pytest.FixtureRequest, aec_backend: ComputeBackend, aec_task: Task) -> str:
    """The reference of the task's built environment; built once per task."""
    start = time.monotonic()
    image = away(aec_backend.build_environment, task_dir=aec_task.path)
    request.node.stash[_BUILD] = start, time.monotonic() - start
    return image


@pytest.fixture
def aec_trial(request: pytest.FixtureRequest) -> Trial:
    """The attempt under way: identity, directories, deadlines, timing."""
    assert isinstance(request.node, SandboxItem)
    assert request.node.trial is not None
    return request.node.trial


@pytest.fixture
def aec_agent(pytestconfig: pytest.Config, aec_trial: Trial) -> Agent:
    """The agent that attempts the task, or what one had left when it is evaluated again."""
    if aec_trial.evaluates is not None:
        from pytest_aecbench.plugin.evaluate import stored_agent

        return stored_agent(aec_trial, aec_trial.evaluates)
    from pytest_aecbench.plugin.lookup import make_agent

    return make_agent(pytestconfig, aec_trial.agent)


@pytest.fixture(scope="session")
def _agent_environments() -> Iterator[Path]:
    """A directory for the environments of images with agents, removed with this process."""
    from pytest_aecbench.host.homes import abandoned_homes, make_home, remove_tree

    for home in abandoned_homes("agents"):
        remove_tree(home)
    home = make_home("agents")
    yield home
    remove_tree(home)


@pytest.fixture
def aec_agent_image(
    request: pytest.FixtureRequest,
    aec_trial: Trial,
    aec_backend: ComputeBackend,
    aec_image: str,
    aec_agent: Agent,
) -> str:
    """The image of the agent's sandbox: the task's own, or one with the agent installed on it."""
    installation = getattr(aec_agent, "installation", None)
    if installation is None:
        return aec_image
    from pytest_aecbench.trials import stages

    assert isinstance(request.node, SandboxItem)
    stash = request.node.parent.stash
    built = stash.setdefault(_AGENT_IMAGES, {})
    with stash.setdefault(_AGENT_IMAGES_TURN, Mutex()):
        if installation not in built:
            home = request.getfixturevalue("_agent_environments")
            built[installation] = away(
                stages.build_with_agent, aec_trial, aec_backend, aec_image, aec_agent, home
            )
    return built[installation]


@pytest.fixture
def aec_sandbox(
    request: pytest.FixtureRequest,
    aec_trial: Trial,
    aec_backend: ComputeBackend,
    aec_image: str,
    aec_agent: Agent,
    aec_agent_image: str,
    aec_slot: None,
) -> Iterator[Sandbox]:
    """The trial's sandbox, started for it alone and removed after it, whatever happens."""
    from pytest_aecbench.trials import verification

    aec_trial.image = aec_image
    aec_trial.agent_image = None if aec_agent_image == aec_image else aec_agent_image
    task_file = request.node.parent
    if _BUILD in task_file.stash:  # charged to the trial that it was built for
        aec_trial.charge("build", *task_file.stash[_BUILD])
        del task_file.stash[_BUILD]
    network = _network(aec_agent)
    echo = _echo(request, aec_trial)  # before there is a sandbox to remove
    sandbox = reversible(
        partial(verification.end, aec_trial, keep=False),
        partial(_start, aec_trial, aec_backend, aec_image, aec_agent_image, network),
    )
    sandbox.echo = echo
    yield sandbox
    keep = aec_trial.settings.keep != "none" and _is_wanted(request.node)
    entrance = away(verification.end, aec_trial, sandbox, keep=keep)
    if keep:  # shown with what else the trial printed
        request.node.add_report_section("teardown", "kept sandbox", entrance)


def _echo(request: pytest.FixtureRequest, trial: Trial) -> Echo | None:
    """Return what prints the output of commands while they run, if it is to be shown."""
    if request.config.getoption("capture") != "no" or is_worker(request.config):
        return None
    from pytest_aecbench.backends.sandbox import Echo
    from pytest_aecbench.plugin.shown import printer_of

    return Echo(trial.scrubber, printer_of(request.node))


def _network(agent: Agent) -> bool | None:
    """Return whether the agent's sandbox has a network; None is as the task says."""
    return True if getattr(agent, "network", "task") == "given" else None


def _start(
    trial: Trial, backend: ComputeBackend, image: str, agent_image: str, network: bool | None
) -> Sandbox:
    """Start the agent's sandbox, and perhaps the verifier's beside it."""
    from pytest_aecbench.trials import stages, verification

    with trial.timed("launch"):
        stages.stage_inputs(trial)
        sandbox = stages.launch(trial, backend, agent_image, trial.workspace_dir, network=network)
    try:
        if notes := getattr(backend, "notes", None):
            trial.warnings.extend(notes(agent_image))
        verification.start_ahead(trial, backend, image)
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def _is_wanted(item: SandboxItem) -> bool:
    """Return whether the sandbox is to be left for debugging."""
    assert item.trial is not None
    return item.trial.settings.keep == "all" or not item.passed


@pytest.fixture
def aec_execution(
    request: pytest.FixtureRequest,
    aec_trial: Trial,
    aec_sandbox: Sandbox,
    aec_agent: Agent,
    aec_backend: ComputeBackend,
    aec_image: str,
) -> AgentResult:
    """The end of the agent, after it has worked in the sandbox.

    On a backend that runs whole trials, the verifier has worked by then, too.
    """
    from pytest_aecbench.backends import is_batch
    from pytest_aecbench.plugin.follow import follower
    from pytest_aecbench.trials import batch, stages

    if is_batch(aec_backend):
        inside = batch.inside(aec_trial.agent, aec_agent, aec_backend)
        network = _network(aec_agent)
        return batch.attempt(aec_trial, aec_sandbox, inside, aec_backend, aec_image, network)
    return away(stages.attempt, aec_trial, aec_sandbox, aec_agent, follower(request.node))


@pytest.fixture
def aec_reward(
    aec_trial: Trial,
    aec_sandbox: Sandbox,
    aec_backend: ComputeBackend,
    aec_image: str,
    aec_execution: AgentResult,
) -> Reward | None:
    """The reward that the verifier gave; None when nothing is verified."""
    from pytest_aecbench.backends import is_batch
    from pytest_aecbench.trials import batch, stages, verification

    aec_trial.agent_result = aec_execution
    aec_trial.warnings.extend(aec_execution.warnings)
    if is_batch(aec_backend):
        wanted = aec_trial.settings.verify
        return batch.verify(aec_trial, aec_backend, aec_image) if wanted else None
    if not aec_trial.settings.verify:
        with stages.attributed(aec_trial):
            away(stages.collect, aec_trial, aec_sandbox)
        return None
    return away(verification.verify, aec_trial, aec_sandbox, aec_backend, aec_image)


@pytest.fixture
def aec_finding(request: pytest.FixtureRequest, check: str) -> Finding | None:
    """The problems that a check found in its task; None when there are none."""
    from pytest_aecbench.checks import NotApplicableError
    from pytest_aecbench.checks.rehearsal import Rehearsal, run_check
    from pytest_aecbench.errors import BuildError

    assert isinstance(request.node, SandboxItem)
    directory = request.node.path.parent
    try:
        return run_check(check, Rehearsal(directory, request.getfixturevalue))
    except NotApplicableError as error:
        pytest.skip(str(error))
    except BuildError:
        if "image" not in settings_of(request.config).checks:
            raise
        pytest.skip("the image cannot be built; check[image] says why")
