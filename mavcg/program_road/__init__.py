"""The program road: sources and a profile in, a multi-versioned library out."""
