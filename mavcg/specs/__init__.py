"""The types that pass between a graph and machine code: layouts, kernel specs, primitives, macro-tiles, programs."""
