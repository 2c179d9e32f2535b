"""The runtime of built libraries: core table, selector and engine in C, and Python code to compile and load them.

Where the next thing goes:

- Runtime that calls subgraphs: csrc/: its C interface as declarations, in the unit drop_in (amalgamation.py)
  (docs/drop-in.md).
- Engine feature: csrc/engine_*.c, one idea a file; the API in engine_api.h and model_header.py; Python's side in
  loading.py (docs/model-runtime.md).
- Method to recognise a core: csrc/, one source of facts a file, ordered in table.c (docs/runtime.md).
"""
