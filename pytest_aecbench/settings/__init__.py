"""What a run is asked to do: one table of settings, their layers, and the resolved value."""
