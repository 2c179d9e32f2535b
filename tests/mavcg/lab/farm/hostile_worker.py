"""A worker that has the token and answers with what the file ANSWER names, not with results.

Usage: python -m tests.mavcg.lab.farm.hostile_worker ADDRESS ANSWER PLANTED
"""

import os
import sys
from pathlib import Path
from typing import Any

from mavcg.cli.app import run
from mavcg.lab.farm.library_tasks import LinkedFiles
from mavcg.lab.jobs import remote_tasks
from mavcg.lab.jobs.messages import Message, pack_message

ADDRESS, ANSWER, PLANTED = sys.argv[1:4]


class Bomb:
    """A pickle of it makes a folder when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (PLANTED,)


def hostile_answer(request: bytes) -> Any:
    """Answer by the first word of the file ANSWER; requests that it does not concern are answered as by others."""
    kind = Path(ANSWER).read_text()
    labels = {"request": remote_tasks.request_digest(request)}
    answer = {
        "bomb": Bomb(),
        "bomb in a list": [Bomb()],
        "text": "done",
        "none": None,
        "garbage": b"\x80\x04garbage",
        "other request": pack_message((), request="0" * 64),
        "other type": pack_message(("a",), **labels),
        "too many": pack_message((None,) * 1000, **labels),
    }
    if kind == "raises":
        raise BombError
    if kind == "exit":
        os._exit(1)
    if kind in answer:
        return answer[kind]
    true = GENUINE(request)
    if kind != "genuine" and Message(request).labels["task"] == "link_libraries":
        (files,) = Message(true).value(tuple[LinkedFiles])
        return pack_message((LinkedFiles((*files.files, (kind, b"evil")), files.document),), **labels)
    return true


class BombError(Exception):
    """An error whose pickle makes a folder when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (PLANTED,)


GENUINE = remote_tasks.answer_request
remote_tasks.answer_request = hostile_answer
sys.exit(run(["farm", "join", ADDRESS, "--threads", "1", "--json"]))
