"""The pytest plugin's table of contents."""

pytest_plugins = (
    "pytest_aecbench.options",
    "pytest_aecbench.collection",
    "pytest_aecbench.scheduling",
    "pytest_aecbench.capping",
    "pytest_aecbench.fixtures",
    "pytest_aecbench.retrying",
    "pytest_aecbench.recording",
    "pytest_aecbench.checking",
    "pytest_aecbench.reporting",
    "pytest_aecbench.gating",
    "pytest_aecbench.budgeting",
    "pytest_aecbench.progress",
)
