"""A Python REPL that is sent into a sandbox and needs nothing but Python 3.8 or newer.

``keeper`` is a process that stays, whatever a cell does; ``worker`` is the one that runs cells.
"""
