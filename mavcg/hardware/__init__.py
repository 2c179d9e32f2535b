"""Processors as values: cores, boards, accelerators, targets, instruction classes and their timing.

Where the next thing goes:

- Instruction class: instr_classes.py, with its parent and an example; then rows in profiles/cores
  (docs/add-a-core.md).
- Kind of fact: timing.py, profiles/timing_rows.py; then in_order_pipeline.py or ports.py, and resource_table.py
  (docs/add-a-core.md).
"""
