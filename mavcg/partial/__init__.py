"""Parts of a network: which subgraphs of a user's model can be built, and the model in which nodes stand for them."""
