"""A primitive and its parameters in, an LLVM IR function out: one family a module (mavcg.kernel has the types)."""
