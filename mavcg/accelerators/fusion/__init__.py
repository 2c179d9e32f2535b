"""Fusion: templates and their embeddings, tiles and costs of groups, and the choice of an execution path.

Where the next thing goes:

- Template: an entry of templates.toml.
- Search for a path: a function PathInstance -> ChosenPath, named in SEARCHES of plan.py.
"""
