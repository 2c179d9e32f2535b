"""Code generation: instructions of fused groups, addresses on and off chip, tokens between execution units."""
