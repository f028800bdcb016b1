"""Faults: whole runs that something happens to, on several backends, and what became of them.

`python -m tests.faults` prints one table. A run that was hurt is resumed; then every trial must
have one reward, the right one, and nothing may be left behind.
"""
