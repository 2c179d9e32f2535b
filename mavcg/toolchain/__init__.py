"""Compiler, assembler and linker: what the ziglang wheel brings, and LLVM's code generation."""
