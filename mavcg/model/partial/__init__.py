"""Partial builds: which subgraphs of a user's model can be built, and the model in which single nodes replace them."""
