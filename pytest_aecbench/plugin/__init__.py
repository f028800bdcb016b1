"""The pytest plugin's table of contents."""

pytest_plugins = (
    "pytest_aecbench.plugin.options",
    "pytest_aecbench.plugin.collection",
    "pytest_aecbench.plugin.session",
    "pytest_aecbench.plugin.concurrency",
    "pytest_aecbench.plugin.fixtures",
    "pytest_aecbench.plugin.retries",
    "pytest_aecbench.plugin.records",
    "pytest_aecbench.plugin.checks",
    "pytest_aecbench.plugin.terminal",
    "pytest_aecbench.plugin.gate",
    "pytest_aecbench.plugin.max_cost",
    "pytest_aecbench.plugin.progress",
)
