"""Every figure of the README, and the commands that make them (bench/README.md).

Where the next thing goes:

- Bench of accelerators, GPUs or their design spaces: bench/accelerators; of applications of several networks:
  bench/apps; its tests in the mirrored folder of tests/bench; any other: here.
"""
