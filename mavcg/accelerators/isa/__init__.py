"""The instruction set of the accelerator: fields, binary encoding and assembly text (docs/accelerator-isa.md).

Where the next thing goes:

- Instruction or field: a form in forms.py, from which encoding, text, the C header and the hardware's fields follow;
  limits that fields set each other in instruction.py; what it computes in runtime/accel, what it reads in footprint.py,
  its cycles in simulator/timing.py, its circuit in rtl/.
"""
