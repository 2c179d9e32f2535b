"""Limit which names pickles may load in this process, whichever library reads them.

A pickle runs code through the functions and classes that it names. Python announces each name to audit hooks before it
is looked up (the event `pickle.find_class`), so one hook sees the pickles of all libraries and can refuse.
"""

import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_guards: list[frozenset[str]] = []  # names that may be loaded, one set for each open context
_trusting = threading.local()
_installed = threading.Lock()
_hooked: list[bool] = []


class RefusedPickle(pickle.UnpicklingError, AttributeError):
    """A pickle names a function or class that may not be loaded.

    It is an AttributeError too, as of a name that does not exist, because readers of pickles expect these.
    """


@contextmanager
def only_names(names: frozenset[str]) -> Iterator[None]:
    """Refuse pickles that name anything but these functions and classes, written module:name, within the context.

    It holds for all threads of the process; contexts may be nested, and a name must then be in all sets.
    """
    with _installed:
        if not _hooked:
            sys.addaudithook(_check)  # forever: hooks cannot be removed
            _hooked.append(True)
        _guards.append(names)
    try:
        yield
    finally:
        with _installed:
            _guards.remove(names)


@contextmanager
def own_pickles() -> Iterator[None]:
    """Allow all names in this thread, for pickles that this process or its forked copies have written."""
    before = getattr(_trusting, "now", False)
    _trusting.now = True
    try:
        yield
    finally:
        _trusting.now = before


def _check(event: str, arguments: tuple[object, ...]) -> None:
    if event != "pickle.find_class" or not _guards or getattr(_trusting, "now", False):
        return
    name = ":".join(map(str, arguments))
    if any(name not in names for names in _guards):
        raise RefusedPickle(f"a message names {name}, which may not be loaded from one")
