"""Assembly text -> assembly text.

Where the next thing goes:

- Machine pass: called from loop_tuning.py or straight_tuning.py (docs/add-a-pass.md).
"""
