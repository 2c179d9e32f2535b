"""Costs of primitives and layout conversions: measured, simulated, modelled or imported; kept in a database."""
