"""Compiler, assembler and linker of the ziglang wheel, and LLVM's code generation."""
