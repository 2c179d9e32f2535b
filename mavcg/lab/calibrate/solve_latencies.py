"""Latencies from the cycles of chains: a system of sums, of as many chains as terms."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.chains import Chain, Key, chain_loop, terms

_SAME = 0.3  # of a cycle: chains that differ by less are the same, and what is more is a whole number of cycles
_TOLD = 1e-6


def latency_changes(
    chains: Sequence[Chain], measured: Mapping[str, float], modelled: Mapping[str, float], timing: Timing
) -> dict[Key, int]:
    """Return by how many cycles each fact differs from the model's, by its key.

    measured, modelled: cycles of the loop of each chain, by its name; a chain without is left out, and facts that then
    are known as sums alone are left out too.
    """
    rows, sums = [], []
    for chain in chains:
        name = chain_loop(chain).name
        if name in measured and name in modelled:
            change = measured[name] - modelled[name]
            rows.append(terms(chain, timing))
            sums.append(0.0 if abs(change) < _SAME else round(change))
    columns = {key: at for at, key in enumerate(dict.fromkeys(key for row in rows for key in row))}
    if not columns:
        return {}
    matrix = np.zeros((len(rows), len(columns)))
    for at, row in enumerate(rows):
        for key, count in row.items():
            matrix[at, columns[key]] = count
    inverse = np.linalg.pinv(matrix)
    solved, told = inverse @ np.array(sums), inverse @ matrix
    return {
        key: round(float(solved[at]))
        for key, at in columns.items()
        if abs(told[at, at] - 1) < _TOLD and np.abs(np.delete(told[at], at)).max(initial=0) < _TOLD
    }
