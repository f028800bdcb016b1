"""The command line: options, ini keys, markers, and early word of what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.plugin.state import is_configured, is_worker, settings_of

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--aec-…`` and ``aec_…``."""
    group = parser.getgroup("aecbench", "benchmark trials of AI agents (pytest-aecbench)")
    add = group.addoption
    add(
        "--aec-agent",
        action="append",
        metavar="[NAME=]AGENT",
        help="an agent to run; repeat for several. oracle (runs the task's solution, the default), "
        "nop (does nothing), 'command:SHELL' (a shell command run by bash in /workspace), "
        "replay:PATH (a file as the task's output, or a directory as its workspace, from the task "
        "or the project; {task_id} in PATH is the task's), "
        "HARNESS:MODEL, or the dotted path of an agent class. ini: aec_agent",
    )
    add(
        "--aec-dataset",
        metavar="NAME[@VERSION]",
        help="run the tasks of this dataset and no others; one that is missing or differs from the "
        "dataset's manifest is refused. Without a version, the highest. ini: aec_dataset",
    )
    add(
        "--aec-allow-drift",
        action="store_true",
        help="with --aec-dataset, run tasks that differ from the manifest all the same; every "
        "record of the run says so",
    )
    add(
        "--aec-repetitions",
        metavar="N",
        help="how often each agent attempts each task (default 1). ini: aec_repetitions",
    )
    add(
        "--aec-backend",
        metavar="NAME",
        help="where trials run: local (the default), docker, modal, e2b, daytona, a name that a "
        "conftest.py provides, or the dotted path of a backend class. ini: aec_backend",
    )
    add(
        "--aec-concurrency",
        metavar="N",
        help="how many trials may have a sandbox at once on this machine, in all runs of yours on "
        "the backend and whatever -n says (default: the backend's own). ini: aec_concurrency",
    )
    add(
        "--aec-max-cost",
        metavar="USD",
        help="start no further trial once those of this run have cost so much; --aec-resume runs "
        "the rest later. ini: aec_max_cost",
    )
    add(
        "--aec-check",
        nargs="?",
        const="standard",
        metavar="WHICH",
        help="check the selected tasks instead of running trials: standard (the default), exploits "
        "(agents that cheat), all, or names of checks, separated by commas. Put paths before it",
    )
    add(
        "--aec-keep",
        metavar="WHICH",
        help="which sandboxes to leave for debugging, where the backend can: failed, all or none "
        "(the default). ini: aec_keep",
    )
    add(
        "--aec-force-build",
        action="store_true",
        help="build the tasks' images even where they are there",
    )
    add(
        "--aec-local-mode",
        metavar="MODE",
        help="how the local backend gives each trial its own /workspace: auto (the default), "
        "namespaces (Linux) or rewriting (anywhere). ini: aec_local_mode",
    )
    add(
        "--aec-threshold",
        metavar="X",
        help="the reward from 0 to 1 that passes, instead of each task's own "
        "metadata.pass_threshold. ini: aec_threshold",
    )
    add(
        "--aec-timeout-multiplier",
        metavar="X",
        help="multiply every task's timeouts, as on a slow machine (default 1). "
        "ini: aec_timeout_multiplier",
    )
    add(
        "--aec-no-verify",
        action="store_true",
        help="run the agents but not the verifiers: outputs are kept, nothing is scored. "
        "ini: aec_no_verify",
    )
    add(
        "--aec-retries",
        metavar="N",
        help="how often to try again when the infrastructure failed, never when there is a reward "
        "(default 0). ini: aec_retries",
    )
    add(
        "--aec-retry-delay",
        metavar="SEC",
        help="how long to wait before the first retry; twice as long before each further one, up "
        "to a minute (default 2). ini: aec_retry_delay",
    )
    add(
        "--aec-resume",
        nargs="?",
        const="latest",
        metavar="ID",
        help="go on with an experiment (the latest one, or --aec-resume=ID): trials that have a "
        "reward are reused, the others run",
    )
    add(
        "--aec-rerun",
        metavar="WHICH",
        help="with --aec-resume, what to run again: error (the default), failed (errors and "
        "rewards below the threshold) or all",
    )
    add(
        "--aec-evaluate",
        metavar="ID",
        help="run no agents: verify again, with today's verifiers and on any backend, what those "
        "of an experiment left; --aec-agent=NAME picks among its agents",
    )
    add(
        "--aec-gate",
        metavar="RULE",
        help="what makes the run pass instead of 'all passed', such as 'mean>=0.6' or "
        "'pass@1[difficulty=easy]>=0.9 and errors<=0.05'. ini: aec_gate",
    )
    add(
        "--aec-max-error-rate",
        metavar="X",
        help="the share of trials from 0 to 1 that may end in an error, whatever the gate says. "
        "ini: aec_max_error_rate",
    )
    add(
        "--aec-baseline",
        metavar="ID",
        help="compare with an earlier experiment at the end of the run. ini: aec_baseline",
    )
    add(
        "--aec-fail-on-regression",
        action="store_true",
        help="let the comparison with --aec-baseline decide whether the run passes, instead of "
        "'all passed': it fails when an agent's rewards got worse by more than chance explains. "
        "ini: aec_fail_on_regression",
    )
    add(
        "--aec-summary-md",
        metavar="FILE",
        help="write the summary as Markdown; $GITHUB_STEP_SUMMARY gets it in any case. "
        "ini: aec_summary_md",
    )
    add(
        "--aec-progress",
        metavar="SEC",
        help="how often to say where the run stands when there is no terminal to show it on "
        "(default 60 seconds; 0: never, nor on a terminal). ini: aec_progress",
    )
    add(
        "--aec-experiment-id",
        metavar="ID",
        help="name the run's records in the ledger (default: exp-<date>-<time>-<random>)",
    )
    add(
        "--aec-experiment",
        metavar="FILE",
        help="an experiment.yaml that says which tasks, agents and compute; other options win over "
        "what it says, one by one",
    )
    add(
        "--aec-show-config",
        action="store_true",
        help="print every setting with where it comes from, and exit",
    )
    ini = parser.addini
    ini("aec_agent", "agents to run, as for --aec-agent", type="linelist", default=[])
    ini("aec_dataset", "as for --aec-dataset", type="string", default="")
    ini("aec_repetitions", "as for --aec-repetitions", type="int", default=None)
    ini("aec_backend", "as for --aec-backend", type="string", default="")
    ini("aec_concurrency", "as for --aec-concurrency", type="int", default=None)
    ini("aec_max_cost", "as for --aec-max-cost", type="float", default=None)
    ini("aec_local_mode", "as for --aec-local-mode", type="string", default="")
    ini("aec_threshold", "as for --aec-threshold", type="float", default=None)
    ini("aec_timeout_multiplier", "as for --aec-timeout-multiplier", type="float", default=None)
    ini("aec_retries", "as for --aec-retries", type="int", default=None)
    ini("aec_retry_delay", "as for --aec-retry-delay", type="float", default=None)
    ini("aec_gate", "as for --aec-gate", type="string", default="")
    ini("aec_max_error_rate", "as for --aec-max-error-rate", type="float", default=None)
    ini("aec_baseline", "as for --aec-baseline", type="string", default="")
    ini("aec_fail_on_regression", "as for --aec-fail-on-regression", type="bool", default=False)
    ini("aec_summary_md", "as for --aec-summary-md", type="string", default="")
    ini("aec_progress", "as for --aec-progress", type="float", default=None)
    ini("aec_keep", "as for --aec-keep", type="string", default="")
    ini("aec_no_verify", "as for --aec-no-verify", type="bool", default=False)
    ini("aec_tasks_root", "where task ids start (default: tasks)", default="")
    ini("aec_ledger_root", "where records go (default: artefacts/ledger)", default="")
    ini("aec_jobs_root", "where trials' files go (default: jobs)", default="")
    ini("aec_datasets_root", "where datasets are (default: artefacts/datasets)", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse bad options before anything is collected; stay out of the way otherwise."""
    if is_configured(config) and not is_worker(config):
        from pytest_aecbench.plugin import lookup

        lookup.check_names(config)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Print the settings instead of running anything, where that is asked for."""
    if not config.getoption("--aec-show-config") or is_worker(config):
        return None
    from pytest_aecbench.settings.show import table

    print(table(settings_of(config)))
    return 0
