"""Machines that a runner reaches (this one, a board over ssh, a phone over adb), and the program that measures on them.

Where the next thing goes:

- Connection to a machine that measures: a Transport, named in open.py (docs/measuring-on-boards.md).
- Fact of a machine: facts.py. What the measuring program times, and its output: csrc, bench_lines.py.
- Which jobs are measured, and what costs follow: mavcg/lab/tuning.
"""
