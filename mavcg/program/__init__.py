"""The program pipeline: from sources and a profile to a multi-versioned library.

Where the next thing goes:

- Machine that `mavcg auto` runs on: a PerfRuns (perf_runs.py), as mavcg/lab/runners/auto_board.py has one
  (docs/auto.md).
- Table or key of mavcg.toml: a field in buildfile.py; read by mavcg/files/decode.py (docs/mavcg-toml.md).
- File that `mavcg init` looks for: folder_contents.py; its output: initial_project.py.
- Reason to drop a version: version_choice.py; by a core's model: version_model.py; for its bytes: version_growth.py
  (docs/measuring.md).
"""
