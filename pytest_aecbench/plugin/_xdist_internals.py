"""Names of xdist and execnet that they do not promise to keep: each is used here, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler.load import LoadScheduling

if TYPE_CHECKING:
    import signal

    from xdist.workermanage import WorkerController

__all__ = ["OneByOneScheduling", "signal_worker"]


class OneByOneScheduling(LoadScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's scheduling with the parts that a scheduler of our own needs."""

    def waiting_for(self, node: WorkerController) -> list[int]:
        """Return the tests that the worker runs or has before it."""
        return list(self.node2pending[node])

    def agree(self) -> bool:
        """Return whether all workers collected the same tests; xdist says what differs."""
        return bool(self._check_nodes_have_same_collection())

    def send_next(self, node: WorkerController) -> None:
        """Send the first pending test to the worker."""
        self._send_tests(node, 1)


def signal_worker(node: WorkerController, number: signal.Signals) -> None:
    """Send a signal to the worker's process, if it still runs."""
    # Neither xdist nor execnet tells which it is; without it, workers end by themselves later.
    popen = getattr(getattr(node.gateway, "_io", None), "popen", None)
    if popen is not None and popen.poll() is None:
        popen.send_signal(number)
