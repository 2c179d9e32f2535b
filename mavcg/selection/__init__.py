"""Selection of a primitive and a layout for each node of a network."""
