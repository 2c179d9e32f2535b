"""Finding a core's facts by timed loops: on a board by a small program, or in simulation, where they are known.

Where the next thing goes:

- Loop that measures a fact: chains.py (latencies), rate_loops.py (rates, widths, pairs), memory_loops.py (branches,
  caches, memory, window). What its cycles say: latency_facts.py, rate_facts.py, memory_facts.py.
- Place where loops run: a LoopTimer (loops.py): board.py over a runner, simulated.py on the timing models.
- Fact that may be altered in simulation: altered_core.py; in a written file: core_file.py (docs/add-a-core.md).
"""
