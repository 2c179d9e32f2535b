"""Requests of one model's library for two boards."""

from pathlib import Path

from mavcg.model.model_request import ModelRequest
from mavcg.model.request import ModelOptions, make_model_request

BOARDS = ("rk3588", "raspberry-pi-4")


def two_requests(model: Path, folder: Path) -> list[ModelRequest]:
    requests = []
    for board in BOARDS:
        (folder / board).mkdir(parents=True, exist_ok=True)
        requests.append(make_model_request(model, str(folder / board / "libtiny.so"), ModelOptions(board=board))[0])
    return requests
