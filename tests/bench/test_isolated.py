"""Children that crash, hang and eat memory take one item with them and no more."""

import os
import signal
import time
from typing import Any

from bench.isolated import Died, each


def work(index: int) -> Any:
    if index == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 4:
        time.sleep(60)
    if index == 6:
        try:
            return bytearray(1 << 33) and "had it"
        except MemoryError:
            return "no memory"
    if index == 7:
        raise ValueError
    return index * index


def test_each_item_has_its_end() -> None:
    found = {r.index: r.value for r in each(work, 10, seconds=1.5, memory_bytes=1 << 31, workers=2)}

    assert {i: v for i, v in found.items() if not isinstance(v, Died)} == {
        0: 0,
        1: 1,
        3: 9,
        5: 25,
        6: "no memory",
        8: 64,
        9: 81,
    }
    assert found[2] == Died("crash", "died of SIGKILL")
    assert found[4] == Died("hang", "took more than 1.5 s")
    assert found[7].kind == "crash"


def test_nothing_to_do() -> None:
    assert list(each(work, 0, seconds=1)) == []
