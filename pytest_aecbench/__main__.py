"""``python -m pytest_aecbench`` is the ``aec-bench`` command."""

from __future__ import annotations

from pytest_aecbench.cli import main

main()
