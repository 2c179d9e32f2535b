"""The price of a kernel on a core, before its code is made: cycles as named terms (docs/design/one-price.md).

board_model makes the cores of a board, as CoreModel. kernel_cost is the door: macro_tile prices a sum of products in a
macro-tile, counted_work what other kernels count. cycles is the price; layer and traffic are the planner's layers,
tilings and bytes, memory the time of bytes through memory levels, guided_chunks the time of a step that threads share.
core_facts has what a simulated core has beside.

Where the next thing goes:

- A kernel that cuts its own work: `counts` of its spec, and a constant in [primitives.cycles] of profiles/fits.
- A term of the cost of macro-tiles: Term in cycles.py, counted in macro_tile.py; a constant of it in [macro_tile].
- A fact of cores that prices need: board_model.py, and a typical value in [typical].
"""
