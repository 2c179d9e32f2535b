"""A primitive and its parameters in, an LLVM IR function out. Empty until the model road."""
