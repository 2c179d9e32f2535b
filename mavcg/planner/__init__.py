"""The planner: tilings and dataflows of convolutions from a roofline model (e-PlaNNer, chapters 4 to 8).

From the ground up: layer, tiling  <  traffic, roofline  <  searches  <  plans of a network and their text.
"""
