"""The instruction set of the accelerator: fields, binary encoding and assembly text (docs/accelerator-isa.md)."""
