"""LLVM IR text -> LLVM IR text."""
