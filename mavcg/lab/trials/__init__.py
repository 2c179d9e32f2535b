"""Running primitives on this machine or an emulated one, to check their results; scenarios are of their callers.

Where the next thing goes: machine that runs primitives: run.py, emulation.py; fault that is looked for: check.py.
"""
