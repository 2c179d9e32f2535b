"""Plans for accelerators: searches for tilings, plans of whole networks and their text, reports and pictures.

graph_layers reads the layers from a graph, roofline has the rate of a tiling, loop_order the bytes that its loops move;
layers, tilings and the thesis's traffic are those of cores, too (mavcg/cost/layer.py, traffic.py).

Where the next thing goes:

- Search for tilings, baseline: named in request.py; metric: in METRICS of roofline.py (docs/planning.md).
- Machine to plan for that is no accelerator of a file: machines.py.
"""
