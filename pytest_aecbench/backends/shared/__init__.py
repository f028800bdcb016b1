"""Code that more than one backend uses."""
