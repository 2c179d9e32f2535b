"""Processors as values: cores, boards, accelerators, instruction classes and their timing.

core.py and board.py are what files say; core_model.py is what builds, plans and predictions make of it, the one answer
to what a core is.

Where the next thing goes:

- Instruction class: instr_classes.py, with its parent and an example; then rows in profiles/cores
  (docs/add-a-core.md).
- Kind of fact: timing.py, profiles/timing_rows.py; then in_order_pipeline.py or ports.py, and resource_table.py
  (docs/add-a-core.md).
"""
