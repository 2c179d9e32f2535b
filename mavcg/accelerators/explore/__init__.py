"""Design spaces: every machine of a product of figures, planned exactly for several networks, and their Pareto front.

Layers: design_space, workload  <  tilings, metrics, pareto  <  store, engine  <  exploration  <  report.

Where the next thing goes:

- Objective of an exploration: its figure in metrics.py with a bound, its name in objectives.py (docs/exploring.md).
"""
