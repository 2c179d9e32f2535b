"""A primitive and its parameters in, an LLVM IR function out (types: mavcg.specs.kernel)."""
