"""The costs of a network's primitives and conversions, for `mavcg tune`: measured on a machine, or simulated.

Where the next thing goes:

- What has to be measured for a network, in order: work_list.py.
- Rule for interleaved measurements: interleaved.py; run by interleaved_run.py (docs/tuning-models.md).
- Simulated costs of primitives: simulated.py, for a selection simulated_choices.py; windows of rows:
  mavcg/lab/simulate/row_windows.py (docs/tuning-models.md).
"""
