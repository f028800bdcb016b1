"""What this machine's processes of one user share: files, owners, runs, slots, signals and secrets."""
