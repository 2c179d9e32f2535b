"""Preload module of Dask's workers on this machine.

Ctrl-C in the terminal only interrupts the process that started them.
"""

import signal


def dask_setup(worker: object) -> None:
    """Ignore interrupts; the process that started the worker ends it. Dask calls this when the worker starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
