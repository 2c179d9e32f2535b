"""Costs of primitives and layout conversions: measured, simulated, modelled or imported; kept in a database.

Where the next thing goes:

- Source of costs: a CostProvider (provider.py) (docs/tuning-models.md).
"""
