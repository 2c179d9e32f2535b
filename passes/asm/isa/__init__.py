"""AArch64 instructions: syntax, registers and memory that they read and write, timing class.

Where the next thing goes:

- Instruction, or a form of one: mnemonics.py: class, registers, flags; instruction.py and effects.py where a
  form is its own; syntax.py for new operands; operation_count.py for arithmetic (docs/add-a-pass.md).
"""
