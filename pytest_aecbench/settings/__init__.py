"""Settings of a run: one table of them, their layers, and the resolved value."""
