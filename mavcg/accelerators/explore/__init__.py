"""Design spaces: every machine of a product of figures, planned exactly for several networks, and their Pareto front.

Layers: design_space, workload  <  tilings, metrics, pareto  <  store, engine  <  exploration  <  report.
"""
