"""Records as data: an append-only store, its journal, and the rules for reading it."""
