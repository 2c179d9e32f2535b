"""Structure-aware mutators, which change an input's values and keep its form, so that inputs get past a reader's door.

A target's `mutate(data, limit, seed)` comes from one of these modules: trees (TOML, JSON), lines (text), images (ELF,
Mach-O), databases (SQLite), messages (between processes). Each damages bytes as well, now and then.
"""

import random
from collections.abc import Callable

Mutate = Callable[[bytes, int, int], bytes]
_BYTES_SHARE = 0.1  # of mutations that know nothing of the form


def mutator(change: Callable[[random.Random, bytes], bytes]) -> Mutate:
    """Return a target's `mutate` that applies `change` one to three times; seldom, and where it fails, bytes change.

    change: raises ValueError for data that does not have the form.
    """

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        from bench.fuzz_mutations import cut, doubled, flipped, removed

        source = random.Random(seed)
        made = data
        try:
            if source.random() >= _BYTES_SHARE:
                for _ in range(source.choice((1, 1, 1, 2, 3))):
                    made = change(source, made)
                return made[:limit]
        except ValueError:  # JSON and Unicode errors are of this class
            pass
        return source.choice((flipped, cut, doubled, removed))(source, made)[:limit]

    return mutate
