"""The harness ``lambda-rlm``: a report from long sources, written by a plan and not by a loop.

The plan is known before the first call: each source is split, read and reduced; its facts are
reviewed; each section is generated from them; the sections are composed.
"""
