"""Task directories as values: schema, digest, Dockerfile, selection, scaffold."""
