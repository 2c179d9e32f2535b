"""Costs of primitives and layout conversions: measured, modelled or imported; kept in a database."""
