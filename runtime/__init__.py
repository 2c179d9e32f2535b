"""The runtime of built libraries: core table, selector and engine in C, and Python code to compile and load them."""
