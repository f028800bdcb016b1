"""The tests of limits."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.backends import ComputeBackend, Limits

if TYPE_CHECKING:
    from pytest_aecbench.testing.sandbox import Launch

__all__ = ["LimitConformance"]


class LimitConformance:
    """A limit holds, or the backend says that it does not."""

    enforces_network: bool

    def test_without_network_there_is_only_the_loopback(
        self, backend: ComputeBackend, launch: Launch
    ) -> None:
        if not self.enforces_network:
            assert "network" in getattr(backend, "describe", str)(), "not even said"
            return
        sandbox = launch(limits=Limits(network=False))
        away = sandbox.run("timeout 10 bash -c 'exec 3<>/dev/tcp/192.0.2.1/9'")
        assert "unreachable" in away.stderr
        here = sandbox.run("exec 3<>/dev/tcp/127.0.0.1/9")
        assert "refused" in here.stderr
