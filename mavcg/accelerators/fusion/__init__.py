"""Fusion: templates and their embeddings, tiles and costs of groups, and the choice of an execution path."""
