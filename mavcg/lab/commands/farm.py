"""The verbs `mavcg farm ..`: the scheduler and the workers that other machines' builds and measurements run on."""

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.option_class import group_of
from mavcg.console.output import note, print_json_line
from mavcg.console.shared_options import Insecure
from mavcg.text.terminal import show

if TYPE_CHECKING:
    from mavcg.lab.connections.address import FarmAddress

HELP = """Build, explore and measure on several machines: a scheduler, and workers that join it.

\b
mavcg farm serve --address 10.0.0.5          # on one machine
mavcg farm join tls://10.0.0.5               # on each worker, with a copy of the token
mavcg build a.onnx b.onnx --boards rk3588,exynos9820 --workers tls://10.0.0.5 -o libraries
"""
Token = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The farm's token, a file of yours alone; default: $MAVCG_FARM_TOKEN, or else "
        "~/.config/mavcg/farm/token.pem.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print where it listens as a line of JSON.")]


def serve(
    address: Annotated[
        str, typer.Option(metavar="HOST", help="Address of this machine to listen on; default: this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0: any.")] = 8786,
    token: Token = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Run the scheduler of a farm, to which workers and clients connect, until Ctrl-C.

    Connections are encrypted, and both sides show the token, which is made at the first start: whoever lacks it can
    neither send work nor join. Copy it to the other machines. With --insecure there is no encryption and no token.

    \b
    mavcg farm serve                                  # for this machine alone
    mavcg farm serve --address 10.0.0.5               # for others too
    scp ~/.config/mavcg/farm/token.pem worker:.config/mavcg/farm/token.pem
    """
    from mavcg.lab.connections.address import FarmAddress
    from mavcg.lab.connections.token import make_token, token_path
    from mavcg.lab.farm.service import require_dask
    from mavcg.lab.farm.service import serve as run_scheduler

    require_dask("mavcg farm serve")
    where = FarmAddress(address.strip("[]"), port, not insecure)
    path = token or token_path()
    if where.encrypted and make_token(path):
        note(f"made the token {path}; copy it to the machines that join")
    run_scheduler(where, path, lambda listening: say_ready(listening, path, as_json), note)


def say_ready(listening: "FarmAddress", token: Path, as_json: bool) -> None:
    """Print where the scheduler listens and how to join it."""
    from mavcg.lab.connections.address import FarmAddress, is_any

    host = socket.gethostname() if is_any(listening.host) else listening.host
    reached = FarmAddress(host, listening.port, listening.encrypted)
    option = "" if reached.encrypted or reached.is_local else " --insecure"
    command = f"mavcg farm join {reached.url}{option}"
    facts: dict[str, Any] = {"address": reached.url, "join": command, "pid": os.getpid()}
    if listening.encrypted:
        facts["token"] = str(token)
    if as_json:
        print_json_line(facts)
        return
    whom = "this machine alone" if listening.is_local else "all machines that reach it"
    lines = [f"scheduler   {listening.url}, for {whom}", f"workers     {command}"]
    lines.append(f"clients     --workers {reached.url}{option}")
    lines.append(
        f"token       {token}" if listening.encrypted else "token       none: everybody who reaches it sends work"
    )
    show("\n".join(lines))
    sys.stdout.flush()


def join(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Address of the scheduler: tls://HOST:PORT.")],
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Number of tasks at a time; default: one for each CPU."),
    ] = None,
    resources: Annotated[
        str,
        typer.Option(
            metavar="NAME=N..",
            help="Boards that this machine reaches, as board-NAME=1, in which NAME is one of the fleet's file; only "
            "such a worker runs programs on boards.",
        ),
    ] = "",
    host: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST",
            help="Address of this machine for its own port; default: that by which it reaches the scheduler.",
        ),
    ] = "",
    token: Token = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Run a worker of a farm until Ctrl-C; it does what clients of its scheduler request.

    Its results are data, which clients check; it runs no code but this version of mavcg, and clients with another
    version are refused. Each worker does several tasks at a time in one process; start several for more processes.

    \b
    mavcg farm join tls://10.0.0.5
    mavcg farm join tls://10.0.0.5:8786 --threads 2 --resources "board-desk-1=1 board-desk-2=1"
    mavcg farm join tls://10.0.0.5 --token farm.pem
    """
    from mavcg.lab.connections.address import read_address
    from mavcg.lab.connections.token import token_path
    from mavcg.lab.farm.service import WorkerOffer, read_resources, require_dask
    from mavcg.lab.farm.service import join as run_worker

    where = read_address(address, insecure, address)
    require_dask("mavcg farm join")
    offer = WorkerOffer(threads or len(os.sched_getaffinity(0)), read_resources(resources), host.strip("[]"))

    def ready(own: str) -> None:
        if as_json:
            print_json_line({"address": own, "scheduler": where.url, "threads": offer.threads, "pid": os.getpid()})
        else:
            boards = "".join(f", {name}" for name in offer.resources)
            show(f"worker      {own}, of {where.url}: {offer.threads} tasks at a time{boards}")
            sys.stdout.flush()

    run_worker(where, offer, token or token_path(), address, ready)


farm = group_of(HELP, serve=serve, join=join)
