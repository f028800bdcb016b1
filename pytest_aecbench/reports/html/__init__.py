"""The results of experiments as one HTML file that needs nothing else."""
