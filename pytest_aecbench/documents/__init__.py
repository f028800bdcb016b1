"""Read hand-written files (TOML, YAML, .env) strictly; report every problem in one line."""
