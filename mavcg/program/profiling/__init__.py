"""perf, simpleperf and callgrind output -> one table of samples -> a ranking of functions.

Where the next thing goes:

- Profile format: one reader a module, listed in program/profiling/load.py (docs/profiling.md).
"""
