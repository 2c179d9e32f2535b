"""Convert operators of graphs to coarse operations of an accelerator; each module has a family of operators."""
