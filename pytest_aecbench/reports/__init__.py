"""Figures from records, and their rendering as text and Markdown."""
