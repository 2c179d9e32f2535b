"""Sources of a program: from a hot symbol to the source file and compiler command that make it."""
