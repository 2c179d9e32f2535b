"""The accelerator as hardware: Verilog by Amaranth, and co-simulation with the functional and the cycle simulator.

Each module builds one part of the machine: sizes of a target, fields of instructions, memories with their lanes, code
fetch, dispatch with tokens, and the execution units. `core.py` joins them, `verilog.py` writes them, `cosimulation.py`
runs them beside the simulators. docs/accelerator-rtl.md has the picture.
"""
