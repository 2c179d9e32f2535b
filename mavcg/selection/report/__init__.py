"""Selections as tables, JSON and pictures."""
