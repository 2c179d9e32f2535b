"""Bands of rows: which steps of a model are computed depth first, a few rows of all of them at a time.

banded_range: the values  <  band_model: times of a range by bands  <  choose_bands: the ranges that pay.

Where the next thing goes:

- Another order that keeps rows in a cache: its times in band_model.py, whether it pays in choose_bands.py.
"""
