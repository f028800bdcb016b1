"""Read what people write (TOML, YAML), strictly: every problem is one line."""
