"""Design spaces: every machine of a product of figures, planned exactly for several networks, and their Pareto front.

Layers: design_space, workload, pareto  <  tilings, metrics  <  store  <  exploration, point_exploration  <  report.

Where the next thing goes:

- Objective of an exploration: its figure in metrics.py with a bound, its name in objectives.py (docs/exploring.md).
- Kind of points on which networks are computed one by one, as boards and targets: its NetworksOnPoints
  (point_exploration.py), its space by read_table and read_values (design_space.py), its report in
  point_reports.py, and its entry in commands/explore.py.
"""
