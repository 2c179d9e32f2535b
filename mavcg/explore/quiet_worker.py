"""Preloaded by Dask's workers on this machine: Ctrl-C in the terminal is for the process that started them."""

import signal


def dask_setup(worker: object) -> None:
    """Ignore interrupts; the process that started the worker ends it. Called by Dask at the worker's start."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
