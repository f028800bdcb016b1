"""One attempt at a trial: its stages, its reward and the record that it leaves."""
