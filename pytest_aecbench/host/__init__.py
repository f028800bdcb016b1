"""The machine, as processes of one user share it: files, owners, slots, signals, secrets."""
