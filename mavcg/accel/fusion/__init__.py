"""Fusion: templates, their embeddings, tiles and costs of groups, and the choice of an execution path."""
