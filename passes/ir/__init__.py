"""LLVM IR text -> LLVM IR text.

Where the next thing goes:

- IR pass: called from program/version_jobs.py (docs/add-a-pass.md).
"""
