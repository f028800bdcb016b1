"""Datasets: named, versioned, content-hashed sets of tasks, and archives of them."""
