"""Benches of applications: several networks in one memory, as pipelines and by parts of rows."""
