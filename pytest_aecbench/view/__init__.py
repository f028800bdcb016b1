"""The live viewer: a small server on the loopback interface that shows a ledger and its files."""
