"""Which primitive and which layout each node of a network takes."""
