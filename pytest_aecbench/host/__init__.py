"""The machine that processes of one user share: files, owners, slots, signals, secrets."""
