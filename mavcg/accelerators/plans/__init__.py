"""Plans for accelerators: searches for tilings, plans of whole networks and their text, reports and pictures.

Where the next thing goes:

- Search for tilings, metric, baseline: named in its request.py (docs/planning.md).
"""
