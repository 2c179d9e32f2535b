"""Real schedulers and workers on loopback: who can connect, where they listen, and what hostile ones achieve."""

import asyncio
import errno
import importlib
import os
import pickle
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mavcg.accelerators.plans.schedule_cache import fingerprint
from mavcg.errors import MavcgError
from mavcg.lab.commands.farm import say_ready
from mavcg.lab.connections.address import FarmAddress, read_address
from mavcg.lab.connections.check_scheduler import check_scheduler, farm_security
from mavcg.lab.connections.token import make_token, token_path
from mavcg.lab.farm import service
from mavcg.lab.jobs.dask_engine import DaskEngine
from tests.mavcg.accelerators.explore.dask_cluster import DaskCluster, cluster, started
from tests.mavcg.accelerators.explore.spaces import WIDE, space_of
from tests.mavcg.cli.planted import MARK, plant_modules

pytest.importorskip("distributed")
pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def farm() -> Iterator[DaskCluster]:
    """A scheduler and a worker, with the token of this module."""
    with cluster((("--threads", "1", "--resources", "board-desk=1"),)) as made:
        yield made


def distributed() -> Any:
    return importlib.import_module("distributed")


def address_of(made: DaskCluster) -> FarmAddress:
    return read_address(made.address, False, made.address)


def listening(process: int) -> set[str]:
    """The addresses on which a process listens, by /proc: of IPv4 and IPv6, in hexadecimal."""
    inodes = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(entry)))
        except OSError:
            continue
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_scheduler_and_worker_listen_on_loopback_alone_on_one_port_each(farm: DaskCluster) -> None:
    for process in (farm.scheduler, farm.workers[0]):
        assert listening(process.pid) == {"0100007F"}


def test_one_without_a_token_cannot_shake_hands(farm: DaskCluster) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = address_of(farm)
    with socket.create_connection((address.host, address.port), 20) as plain, pytest.raises(OSError):
        with context.wrap_socket(plain) as encrypted:
            assert encrypted.recv(1)
            pytest.fail("the scheduler spoke")


def test_one_that_speaks_plain_tcp_gets_no_word(farm: DaskCluster) -> None:
    address = address_of(farm)
    with socket.create_connection((address.host, address.port), 20) as plain:
        plain.sendall(b"\0" * 200)
        answer = b""
        try:
            while part := plain.recv(1000):
                answer += part
        except ConnectionError:
            pass
    assert len(answer) <= 7  # a TLS alert


def test_another_token_is_refused_by_name(
    farm: DaskCluster, tmp_path: Path, mavcg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "token.pem"
    make_token(other)
    done = mavcg("farm", "join", farm.address, "--token", other)
    assert done.status == 2 and done.stdout == ""
    assert done.stderr == f"mavcg: {farm.address}: the scheduler there has another token than {other}; copy its token\n"
    monkeypatch.setenv("MAVCG_FARM_TOKEN", str(other))
    with pytest.raises(MavcgError, match="--workers tls://127.0.0.1:.*: the scheduler there has another token than"):
        DaskEngine(address_of(farm), fingerprint)
    monkeypatch.setenv("MAVCG_FARM_TOKEN", str(tmp_path / "none.pem"))
    with pytest.raises(MavcgError, match="there is no token of a farm"):
        DaskEngine(address_of(farm), fingerprint)


def test_a_server_that_has_no_token_gets_nothing_of_a_client(tmp_path: Path) -> None:
    """One that took the scheduler's port: the client ends in the handshake, as with one that does not speak TLS."""
    make_token(tmp_path / "token.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = FarmAddress("127.0.0.1", server.getsockname()[1], True)
        security = farm_security(address, tmp_path / "token.pem")

        def talk() -> None:
            with server.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        with pytest.raises(MavcgError, match="what answers there does not use TLS"):
            check_scheduler(address, security, tmp_path / "token.pem", address.url)
        thread.join()


@pytest.mark.parametrize("words", [("join", "tcp://10.0.0.5"), ("join", "dask://farm:8786"), ("join", "farm")])
def test_join_refuses_plain_tcp_beyond_this_machine(mavcg: Any, words: tuple[str, ...]) -> None:
    done = mavcg("farm", *words)
    assert done.status == 2 and re.search("is plain TCP to another machine|is not an address", done.stderr)


@pytest.mark.parametrize("text", ["dask://farm:8786", "tcp://10.0.0.5:8786"])
def test_no_verb_speaks_plain_tcp_beyond_this_machine(
    mavcg: Any, text: str, tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Build, explore, tune: one line, exit status 2, no connection."""
    connected: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda *words, **more: connected.append(words))
    space, fleet = tmp_path / "space.toml", tmp_path / "fleet.toml"
    space_of(tmp_path, WIDE)
    fleet.write_text(f'scheduler = "{text}"\n[[board]]\nname = "a"\ntype = "rk3588"\nrunner = "local"\n')
    build = ("build", tiny_onnx, "--boards", "rk3588,raspberry-pi-4", "-o", tmp_path / "out", "--workers", text)
    explore = ("explore", "alexnet", "--space", space, "--workers", text)
    tune = ("tune", "alexnet", "--runner", f"fleet:{fleet}")
    for words in (build, explore, tune, (*tune[:1], *tune[2:], "--check")):
        done = mavcg(*words)
        assert done.status == 2 and "is plain TCP to another machine" in done.stderr and "--insecure" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not connected


def test_serve_says_what_listens_and_refuses_a_busy_port(mavcg: Any, farm: DaskCluster) -> None:
    port = str(address_of(farm).port)
    done = mavcg("farm", "serve", "--port", port)
    assert done.status == 2 and f"mavcg: tls://127.0.0.1:{port}: cannot listen there" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("address", "lines"),
    [
        (
            FarmAddress("127.0.0.1", 8786, True),
            [
                "tls://127.0.0.1:8786, for this machine alone",
                "mavcg farm join tls://127.0.0.1:8786",
                "--workers tls://127.0.0.1:8786",
                "a.pem",
            ],
        ),
        (
            FarmAddress("::1", 1, True),
            [
                "tls://[::1]:1, for this machine alone",
                "mavcg farm join tls://[::1]:1",
                "--workers tls://[::1]:1",
                "a.pem",
            ],
        ),
        (
            FarmAddress("10.0.0.5", 80, False),
            [
                "tcp://10.0.0.5:80, for all machines that reach it",
                "mavcg farm join tcp://10.0.0.5:80 --insecure",
                "--workers tcp://10.0.0.5:80 --insecure",
                "none: everybody who reaches it sends work",
            ],
        ),
    ],
)
def test_what_serve_prints(address: FarmAddress, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    say_ready(address, Path("a.pem"), as_json=False)
    printed = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert printed == [list(pair) for pair in zip(("scheduler", "workers", "clients", "token"), lines, strict=True)]


def raw_call(farm: DaskCluster, where: str, **message: Any) -> Any:
    """The answer of a scheduler or worker to one of Dask's operations, by somebody who has the token."""

    async def call() -> Any:
        security = farm_security(address_of(farm), token_path())
        async with distributed().rpc(where, connection_args=security.get_connection_args("client")) as server:
            return await getattr(server, message.pop("op"))(**message)

    return asyncio.run(call())


def worker_of(farm: DaskCluster) -> str:
    with DaskEngine(address_of(farm), fingerprint) as engine:
        (worker,) = engine.worker_facts()
    return worker


class Bomb:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


OPERATIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "run_function": lambda path: {"function": pickle.dumps(os.mkdir), "args": pickle.dumps((str(path),))},
    "run": lambda path: {"function": pickle.dumps(os.mkdir), "args": pickle.dumps((str(path),)), "wait": True},
    "upload_file": lambda path: {"filename": str(path), "data": b"x = 1"},
    "plugin-add": lambda path: {"plugin": pickle.dumps(Bomb(path)), "name": "x"},
    "register_scheduler_plugin": lambda path: {"plugin": pickle.dumps(Bomb(path)), "name": "x"},
    "register_worker_plugin": lambda path: {"comm": None, "plugin": pickle.dumps(Bomb(path)), "name": "x"},
    "dump_cluster_state_to_url": lambda path: {"url": str(path), "exclude": [], "format": "msgpack"},
    "broadcast": lambda path: {"msg": {"op": "run", "function": pickle.dumps(os.mkdir), "args": (str(path),)}},
    "adaptive_target": lambda path: {"target_duration": "1s"},
}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("where", ["scheduler", "worker"])
def test_a_holder_of_the_token_runs_no_function_of_its_own(
    farm: DaskCluster, tmp_path: Path, op: str, where: str
) -> None:
    planted = tmp_path / "planted"
    target = farm.address if where == "scheduler" else worker_of(farm)
    try:
        answer = raw_call(farm, target, op=op, **OPERATIONS[op](planted))
    except Exception:  # of any class: no such operation, or one that is disallowed
        answer = {"status": "error"}
    assert answer is None or answer["status"] in ("error", "uncaught-error"), answer  # None: no such operation
    assert not planted.exists() and not list(tmp_path.iterdir())


def test_no_function_of_the_clients_is_run_by_a_task(farm: DaskCluster, tmp_path: Path) -> None:
    security = farm_security(address_of(farm), token_path())
    with distributed().Client(farm.address, security=security, timeout=60) as client:
        futures = [
            client.submit(os.mkdir, str(tmp_path / "a")),
            client.submit(os.mkdir, str(tmp_path / "b"), retries=2),
            client.submit(eval, "__import__('os').mkdir"),
        ]
        for future in futures:
            with pytest.raises(Exception):  # noqa: B017 - of Dask, of any class
                future.result(timeout=60)
    assert not list(tmp_path.iterdir())
    with DaskEngine(address_of(farm), fingerprint) as engine:
        assert engine.worker_facts()  # both still run


KINDS = {
    "bomb": "sent not a message",
    "bomb in a list": "sent not a message",
    "text": "sent not a message",
    "none": "sent not a message",
    "garbage": "sent not a message",
    "other request": "sent an answer to another request",
    "other type": "sent a value of class",
    "too many": "sent 1000 results for 1 requests|sent a value of class",
    "../evil.so": "sent a file of the name '../evil.so'",
    "/tmp/evil.so": "sent a file of the name '/tmp/evil.so'",
    "raises": "workers died repeatedly",
    "genuine": "",
}


@pytest.mark.long
def test_a_hostile_worker_gets_one_line_and_leaves_no_file(mavcg: Any, tiny_onnx: Path, tmp_path: Path) -> None:
    kind, planted = tmp_path / "kind", tmp_path / "planted"
    with cluster(()) as made:
        words = [sys.executable, "-m", "tests.mavcg.lab.farm.hostile_worker", made.address, str(kind), str(planted)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        made.workers.append(process)
        assert process.stdout is not None and process.stdout.readline()
        for name, error in KINDS.items():
            kind.write_text(name)
            out = tmp_path / "out"
            done = mavcg("build", tiny_onnx, "--boards", "rk3588", "--workers", made.address, "-o", out)
            assert not planted.exists(), name
            files = [path.name for path in out.rglob("*") if path.is_file()]
            if error:
                assert done.status == 2 and re.search(error, done.stderr) and not files, (name, done.stderr, files)
                assert len(done.stderr.splitlines()) == 1
                assert name == "raises" or "worker tls://127.0.0.1:" in done.stderr
            else:
                assert done.status == 0 and "libtiny.so" in files, done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"kind", "out"}


@pytest.mark.long
def test_insecure_servers_still_run_no_foreign_code(tmp_path: Path) -> None:
    with cluster(((),), ("--insecure",)) as made:
        assert made.address.startswith("tcp://127.0.0.1:")
        with distributed().Client(made.address, timeout=60) as client, pytest.raises(Exception):  # noqa: B017
            client.submit(os.mkdir, str(tmp_path / "a")).result(timeout=60)
        with DaskEngine(address_of(made), fingerprint) as engine:
            assert len(engine.worker_facts()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_servers_end_by_a_signal_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with cluster() as made:
        assert list(tmp_path.iterdir())
        for process in (made.workers[0], made.scheduler):
            process.terminate()
            assert process.wait(timeout=120) == 0
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("mavcg-")] == []


def test_a_worker_for_which_the_disk_is_full_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        async def __aenter__(self) -> None:
            raise RuntimeError("Worker failed to start.") from OSError(errno.ENOSPC, "No space left on device", "x")

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError("it has not begun")

    monkeypatch.setattr(service, "limited_server", lambda *_, **_options: Full())
    address = FarmAddress("127.0.0.1", 1, encrypted=False)
    joining = service._join(address, service.WorkerOffer(1, {}), None, "127.0.0.1", tmp_path, print)

    with pytest.raises(MavcgError, match="no worker starts here .*No space left on device"):
        asyncio.run(joining)


@pytest.mark.long
def test_a_worker_whose_scheduler_ends_says_so() -> None:
    with cluster() as made:
        made.scheduler.kill()
        assert made.workers[0].wait(timeout=120) == 2
        with pytest.raises(AssertionError, match="has ended with 2"):
            started("join", made.address)


@pytest.mark.long
def test_as_the_page_says_in_a_fresh_home(tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mavcg farm serve`, `mavcg farm join`, a build by its workers; the token is made on first use, and copied.

    In a folder where a module of nearly every name lies, of which none is executed.
    """
    planted = tmp_path / "planted"
    planted.mkdir()
    plant_modules(planted)
    monkeypatch.chdir(planted)
    monkeypatch.delenv("MAVCG_FARM_TOKEN", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    here, there = tmp_path / "here", tmp_path / "there"
    for home in (here, there):
        home.mkdir()
    monkeypatch.setenv("HOME", str(here))
    scheduler, facts = started("serve", "--port", "0")
    processes = [scheduler]
    try:
        token = here / ".config/mavcg/farm/token.pem"
        assert facts["token"] == str(token) and stat.S_IMODE(token.stat().st_mode) == 0o600
        assert facts["join"] == f"mavcg farm join {facts['address']}"
        monkeypatch.setenv("HOME", str(there))
        with pytest.raises(AssertionError, match="has ended with 2"):
            started(*facts["join"].split()[2:])
        shutil.copy(token, there / "copy.pem")
        processes.append(started(*facts["join"].split()[2:], "--token", str(there / "copy.pem"))[0])
        monkeypatch.setenv("HOME", str(here))
        words = (
            "build",
            str(tiny_onnx),
            "--boards",
            "rk3588",
            "--workers",
            facts["address"],
            "-o",
            str(tmp_path / "o"),
        )
        done = subprocess.run([sys.executable, "-I", "-m", "mavcg.cli", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "o/rk3588/libtiny.so").is_file()
        assert not (planted / MARK).exists(), (planted / MARK).read_text()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
