"""The agent ``rlm``: a model that works in a Python REPL, from which it calls models in turn.

``repl`` is the part that runs in the sandbox and knows nothing of this package. ``link`` speaks to
it, ``loop`` is the conversation of one model, ``answering`` makes the calls that a cell asks for,
and ``agent`` puts them together.
"""
