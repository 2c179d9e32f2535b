"""Reports of selections: tables, JSON and pictures."""
