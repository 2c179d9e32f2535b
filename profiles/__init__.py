"""Facts about silicon as TOML, and their loader.

Where the next thing goes:

- Core or board: cores, boards (docs/add-a-core.md, docs/add-a-board.md).
- Accelerator: accelerators (docs/add-an-accelerator.md).
- GPU: gpus (docs/gpu.md).
- Energy and area of a process: technologies (docs/exploring.md).
- Fact of a core's pipeline: its TOML: a row of [instr], [forward], [[no_dual_issue]], [[issue_distance]], with source
  (docs/add-a-core.md).
- Reader of a new kind of file: folders.py finds it, schema.py takes its values by types with limits.
"""
