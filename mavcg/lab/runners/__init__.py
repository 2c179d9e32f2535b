"""Measuring on a machine (this one, a board over ssh, a phone over adb) by a small program that is copied to it.

Where the next thing goes:

- Rule for interleaved measurements: interleaved.py; run by interleaved_run.py (docs/tuning-models.md).
- Simulated costs of primitives: simulated_tuning.py, for a selection simulated_choices.py; windows of rows:
  mavcg/lab/simulate/row_windows.py (docs/tuning-models.md).
- Connection to a machine that measures: a Transport, named in open.py (docs/measuring-on-boards.md).
"""
