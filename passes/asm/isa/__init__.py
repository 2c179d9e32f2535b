"""AArch64 instructions: syntax, registers and memory that they read and write, timing class."""
