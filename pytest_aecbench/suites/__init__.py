"""Tasks from templates: one template gives many instances, and a suite is a set of them."""
