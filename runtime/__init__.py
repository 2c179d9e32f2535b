"""The C runtime of built libraries: core table, selector, and how to compile it."""
