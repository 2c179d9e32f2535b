"""Accelerators: a compiler for those with an instruction set, a planner of tiles, code for GPUs, design spaces.

The compiler (DNNVM: Xing et al., IEEE TCAD 39(10), 2020) is one line of calls, build.py: load.py makes an XGraph
(xgraph.py), quantise.py its integers, hand_over.py leaves small operations to the CPU, group_search.py chooses groups,
codegen/ generates the program, simulator/ times it. Of its folders each imports only those before it: isa, image, host,
simulator, codegen, fusion, costs; operators serves load.py, rtl is the hardware. plans/ is the planner (e-PlaNNer),
gpu/ writes CUDA C++ of its plans, explore/ searches spaces by the planner, the compiler and the predictor of boards.

Where the next thing goes:

- Step of the compiler: a function of an XGraph or a program, called in build.py (docs/accelerators.md).
- Accelerator: a file, no code: profiles/isa_targets for the compiler, profiles/accelerators for the planner
  (docs/add-an-accelerator.md). Another instruction set, as vta: forms in isa/, a core in simulator/, code in codegen/.
- Network with seeded weights, known by its name: networks.py.
"""
