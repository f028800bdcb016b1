"""Which tests go to the same worker, told by their ids."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling

__all__ = ["ALONE", "LoadGroupScheduling", "Scheduling"]

# In the ids of tests of which only one can run at a time.
ALONE = "alone"
# Modules whose tests all look at what one of them has made, for which the others would wait.
SHARING = ("plugin/test_broken_tasks.py", "plugin/test_exploits.py")
# Tests that share one browser, which takes longer to start than a test takes.
BROWSER = "tests/browser/"


class Scheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives one worker all that would wait for each other, and one all of a shipped task.

    Marks would do, but for xdist they change the id of a test: pytest 9.2 no longer lets them,
    and where it does, ``--last-failed`` does not know the test again.
    """

    def _split_scope(self, nodeid: str) -> str:
        path, _, parameters = nodeid.partition("[")
        if ALONE in parameters.rstrip("]").split("-"):
            return ALONE
        module = path.partition("::")[0]
        if module.endswith(SHARING):
            return module
        if module.startswith(BROWSER):
            return BROWSER
        if parameters and module.endswith("/test_shipped_tasks.py"):
            return f"{module}[{parameters}"
        return str(super()._split_scope(nodeid))
