"""Measuring and simulating beside the builds: what code, primitives and networks cost on a core, here or elsewhere.

No build needs it; only commands import it, and the other tenants what they share (lab.jobs, lab.connections).

Where the next thing goes:

- Code on a simulated core: simulate. Facts of a core from timed loops: calibrate.
- Results of primitives, checked: trials. Costs of a network's primitives: tuning, by a program that runners takes to a
  machine; on several boards: fleet.
- Builds of many libraries, and the processes that help with them: farm. How any task reaches another process or
  machine: jobs, over connections.
"""
