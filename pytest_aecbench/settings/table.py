"""The table of settings: one row for each, from which every place that names it is made.

These come from here: pytest's options and ini keys, the options of ``aec-bench run``, the keys of
an experiment, of a project and of a user, ``--aec-show-config``, and the README's table. Every
pytest run on a user's machine reads this module, so it imports nothing of ours.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OPTIONS", "TABLE", "Setting"]

LATEST = "latest"


class Setting(NamedTuple):
    """One thing that a run can be asked.

    ``check`` names the function of ``settings.values`` that reads a value; without one, ``resolve``
    does it by hand. ``ini`` is the type of pytest's ini key. ``project``, ``experiment`` and
    ``user`` are the keys in those files.
    """

    name: str
    help: str = ""
    check: str | None = None
    default: object = None
    choices: tuple[str, ...] = ()
    option: str | None = None
    metavar: str | None = None  # an option without one is a flag
    bare: str | None = None  # the value of an option that is given without one
    repeats: bool = False
    ini: str | None = None
    project: str | None = None
    experiment: str | None = None
    user: bool = False
    command: str | None = None  # the name in ``aec-bench run``, where it is not that of the option
    letter: str | None = None  # the short form there

    @property
    def ini_key(self) -> str:
        """The name of pytest's ini key."""
        return f"aec_{(self.option or f'--aec-{self.name}')[6:].replace('-', '_')}"

    @property
    def short(self) -> str:
        """The option's name in ``aec-bench run``, without dashes before it."""
        return self.command or (self.option or "")[6:]


TABLE = (
    Setting("project_name", "the project's name", "text", project="project.name"),
    Setting(
        "tasks_root",
        "where task ids start",
        "path",
        "tasks",
        ini="string",
        project="paths.tasks",
        user=True,
    ),
    Setting(
        "templates_root", "where templates are", "path", "templates", project="paths.templates"
    ),
    Setting("seeds_root", "where seeds are", "path", "seeds", project="paths.seeds"),
    Setting(
        "ledger_root",
        "where records go",
        "path",
        "artefacts/ledger",
        ini="string",
        project="paths.ledger",
        user=True,
    ),
    Setting(
        "feedback_root",
        "where feedback goes",
        "path",
        "artefacts/feedback",
        project="paths.feedback",
        user=True,
    ),
    Setting(
        "datasets_root",
        "where datasets are",
        "path",
        "artefacts/datasets",
        ini="string",
        project="paths.datasets",
        user=True,
    ),
    Setting(
        "jobs_root",
        "where trials' files go",
        "path",
        "jobs",
        ini="string",
        project="paths.jobs",
        user=True,
    ),
    Setting("experiment_name", "a title for people", "text", experiment="name"),
    Setting("description", "a sentence for people", "text", experiment="description"),
    Setting(
        "agents",
        "an agent to run; repeat for several: `oracle` (runs the task's solution, the default), "
        "`nop` (does nothing), `command:SHELL` (bash runs it in /workspace), `replay:PATH` (a file "
        "as the output, or a directory as the workspace, from the task or the project; {task_id} "
        "in PATH is the task's), HARNESS:MODEL, or the dotted path of a class",
        "agents",
        ["oracle"],
        option="--aec-agent",
        metavar="[NAME=]AGENT",
        repeats=True,
        ini="linelist",
        experiment="agents",
    ),
    Setting(
        "agent_files",
        "a file or directory that `command` agents find in their working directory under its own "
        "name, and in $AGENT_FILES; repeat for several. Another content is another agent",
        "texts",
        (),
        option="--aec-agent-files",
        metavar="PATH",
        repeats=True,
        ini="linelist",
    ),
    Setting(
        "dataset",
        "run the tasks of this dataset and no others, as its manifest has them; without a version, "
        "the highest",
        option="--aec-dataset",
        metavar="NAME[@VERSION]",
        ini="string",
        experiment="tasks.dataset",
    ),
    Setting(
        "allow_drift",
        "with --aec-dataset, also run tasks that differ from the manifest; every record says so",
        "flag",
        False,
        option="--aec-allow-drift",
    ),
    Setting(
        "include_patterns", "task ids to run", "texts", (), experiment="tasks.include_patterns"
    ),
    Setting(
        "exclude_patterns", "task ids not to run", "texts", (), experiment="tasks.exclude_patterns"
    ),
    Setting("domains", "domains to run", "texts", (), experiment="tasks.domains"),
    Setting("difficulties", "difficulties to run", "texts", (), experiment="tasks.difficulties"),
    Setting("lifecycle", "lifecycle states to run", "texts", (), experiment="tasks.lifecycle"),
    Setting(
        "repetitions",
        "how often each agent attempts each task (default 1)",
        "repetitions",
        1,
        option="--aec-repetitions",
        metavar="N",
        ini="int",
        experiment="repetitions",
    ),
    Setting(
        "backend",
        "where trials run: `local` (the default), `docker`, `modal`, `e2b`, `daytona`, `gcp`, a "
        "name that a conftest.py provides, or the dotted path of a class",
        "variable",
        "local",
        option="--aec-backend",
        metavar="NAME",
        ini="string",
        project="compute.backend",
        experiment="compute.backend",
    ),
    Setting(
        "concurrency",
        "the most sandboxes at once on this machine, in all your runs on the backend together; "
        "further trials wait, whatever -n says (default: the backend's own limit); without -n, so "
        "many trials run side by side in one process",
        "count",
        option="--aec-concurrency",
        metavar="N",
        ini="int",
        project="compute.resource_limits.n_concurrent_trials",
        experiment="compute.resource_limits.n_concurrent_trials",
        letter="c",
    ),
    Setting(
        "gcp_parallelism",
        "with --aec-backend=gcp, the most trials of one job at once, up to 5000 (default: "
        "--aec-concurrency, else all)",
        "count",
        option="--aec-gcp-parallelism",
        metavar="N",
        ini="int",
    ),
    Setting(
        "timeout_override_sec",
        "the agent's deadline in seconds, instead of each task's own",
        "positive",
        project="compute.resource_limits.timeout_override",
        experiment="compute.resource_limits.timeout_override",
    ),
    Setting(
        "memory_mb",
        "memory for each sandbox, instead of each task's own",
        "count",
        project="compute.resource_limits.memory_mb",
        experiment="compute.resource_limits.memory_mb",
    ),
    Setting(
        "cpus",
        "processors for each sandbox, instead of each task's own",
        "positive",
        project="compute.resource_limits.cpus",
        experiment="compute.resource_limits.cpus",
    ),
    Setting(
        "max_cost_usd",
        "start no more trials once this run has cost this much; --aec-resume runs the rest later",
        "positive",
        option="--aec-max-cost",
        metavar="USD",
        ini="float",
    ),
    Setting(
        "cache_calls",
        "keep each reply of a model in DIR and serve it again to the same request, so that a run "
        "can be repeated without paying; each repetition has its own replies",
        "path",
        option="--aec-cache-calls",
        metavar="DIR",
        ini="string",
    ),
    Setting(
        "follow",
        "print the turns of model agents as they happen, also without -s; trials must run one at a "
        "time, so not with -n",
        "flag",
        False,
        option="--aec-follow",
    ),
    Setting(
        "prices",
        "prices of models in USD for a million tokens, by name",
        "prices",
        project="prices",
    ),
    Setting(
        "checks",
        "check the selected tasks instead of running trials: `standard` (the default), `exploits` "
        "(agents that cheat), `all`, or names of checks, separated by commas; put paths before it",
        "checks",
        option="--aec-check",
        metavar="WHICH",
        bare="standard",
    ),
    Setting(
        "keep",
        "keep sandboxes after the run, to look into them: `failed`, `all` or `none` (the default)",
        "choice",
        "none",
        ("all", "failed", "none"),
        option="--aec-keep",
        metavar="WHICH",
        ini="string",
    ),
    Setting(
        "force_build",
        "build the tasks' images even if they exist",
        "flag",
        False,
        option="--aec-force-build",
    ),
    Setting(
        "local_mode",
        "how the local backend gives each trial its own /workspace: `auto` (the default), "
        "`namespaces` (Linux) or `rewriting` (anywhere)",
        "choice",
        "auto",
        ("auto", "namespaces", "rewriting"),
        option="--aec-local-mode",
        metavar="MODE",
        ini="string",
    ),
    Setting(
        "local_show",
        "let trials of the local backend read this file or directory of the project, its "
        "repository or a home, which are hidden otherwise; repeat for several",
        "existing",
        (),
        option="--aec-local-show",
        metavar="PATH",
        repeats=True,
        ini="linelist",
    ),
    Setting(
        "mounts",
        "show a file or directory of this machine to every sandbox of docker or local, for "
        "debugging; `ro` is the default. Records name it, and leaderboards leave such trials out; "
        "repeat for several",
        "mounts",
        (),
        option="--aec-mount",
        metavar="HOST:SANDBOX[:ro|:rw]",
        repeats=True,
    ),
    Setting(
        "threshold",
        "the reward from 0 to 1 that passes, instead of each task's own metadata.pass_threshold",
        "share",
        option="--aec-threshold",
        metavar="X",
        ini="float",
    ),
    Setting(
        "timeout_multiplier",
        "multiply every deadline by X, as for a slow machine (default 1)",
        "positive",
        1,
        option="--aec-timeout-multiplier",
        metavar="X",
        ini="float",
    ),
    Setting(
        "verify",
        "run the agents but not the verifiers: outputs are kept, nothing is scored",
        "unless",
        False,
        option="--aec-no-verify",
        ini="bool",
        experiment="disable_verification",
    ),
    Setting(
        "retries",
        "how often to repeat a trial whose infrastructure failed; a trial with a reward is never "
        "repeated (default 0)",
        "whole",
        0,
        option="--aec-retries",
        metavar="N",
        ini="int",
    ),
    Setting(
        "retry_delay_sec",
        "seconds before the first retry; twice as long before each further one, up to a minute "
        "(default 2)",
        "positive",
        2,
        option="--aec-retry-delay",
        metavar="SEC",
        ini="float",
    ),
    Setting(
        "resume",
        "continue an experiment (the latest one, or --aec-resume=ID): trials that have a reward "
        "are reused, the others run",
        option="--aec-resume",
        metavar="ID",
        bare=LATEST,
    ),
    Setting(
        "rerun",
        "with --aec-resume or --aec-experiment-id, what to run again: `error` (the default), "
        "`failed` (errors and rewards below the threshold) or `all`",
        "choice",
        "error",
        ("all", "error", "failed"),
        option="--aec-rerun",
        metavar="WHICH",
    ),
    Setting(
        "join",
        "with --aec-resume or --aec-experiment-id, work on an experiment together with other runs: "
        "each trial is run by the first that comes to it",
        "flag",
        False,
        option="--aec-join",
    ),
    Setting(
        "evaluate",
        "re-score the saved outputs of an experiment with today's verifiers, without running "
        "agents and on any backend; --aec-agent=NAME picks among its agents",
        option="--aec-evaluate",
        metavar="ID",
    ),
    Setting(
        "gate",
        "the rule that makes the run pass instead of 'all passed', such as `mean>=0.6` or "
        "`pass@1[difficulty=easy]>=0.9 and errors<=0.05`",
        "gate",
        option="--aec-gate",
        metavar="RULE",
        ini="string",
    ),
    Setting(
        "max_error_rate",
        "fail the run if a larger share of its trials (from 0 to 1) ends in an error, whatever the "
        "gate says. A gate that needs rewards does not hold if more than this share of them is "
        "missing (without the option: 0.05)",
        "share",
        option="--aec-max-error-rate",
        metavar="X",
        ini="float",
    ),
    Setting(
        "baseline",
        "compare with an earlier experiment at the end of the run",
        option="--aec-baseline",
        metavar="ID",
        ini="string",
    ),
    Setting(
        "fail_on_regression",
        "let the comparison with --aec-baseline decide whether the run passes, instead of 'all "
        "passed': it fails if an agent's rewards got worse by more than chance explains, or if "
        "there are too few trials to tell",
        "flag",
        False,
        option="--aec-fail-on-regression",
        ini="bool",
    ),
    Setting(
        "summary_md",
        "write the summary as Markdown; $GITHUB_STEP_SUMMARY gets it in any case",
        "text",
        option="--aec-summary-md",
        metavar="FILE",
        ini="string",
    ),
    Setting(
        "html",
        "write the experiment as one HTML file, with its trajectories and answers",
        "text",
        option="--aec-html",
        metavar="FILE",
        ini="string",
    ),
    Setting(
        "progress_sec",
        "seconds between progress lines where there is no terminal (default 60); 0 turns all "
        "progress off",
        "seconds",
        60,
        option="--aec-progress",
        metavar="SEC",
        ini="float",
    ),
    Setting(
        "experiment_id",
        "name the run's records in the ledger (default: exp-<date>-<time>-<random>); a name that "
        "has records is refused without --aec-rerun or --aec-join",
        option="--aec-experiment-id",
        metavar="ID",
        experiment="experiment_id",
    ),
    # Not settings themselves: which file to read, and what to do with the settings.
    Setting(
        "experiment",
        "an experiment.yaml that says which tasks, agents and compute; other options override it, "
        "one by one",
        option="--aec-experiment",
        metavar="FILE",
        command="config",
    ),
    Setting(
        "show_config",
        "print every setting with its source, and exit",
        option="--aec-show-config",
    ),
)
OPTIONS = tuple(row for row in TABLE if row.option)
