"""Design spaces: every machine of a product of figures, planned exactly for several networks; Pareto fronts of them.

From the ground up: design_space, workload  <  tilings, metrics, pareto  <  store, engine  <  exploration  <  report.
"""
