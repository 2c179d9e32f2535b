"""Every socket that mavcg opens has its line in docs/security.md; pages print mavcg's own commands for farms."""

import re
from pathlib import Path

import pytest

from mavcg.lab.connections.dask_limits import _OPERATIONS, _STREAMS
from mavcg.lab.jobs import remote_tasks
from tests.mavcg.children import may_connect, watched_sockets

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/security.md").read_text().split("## Sockets and farms", 1)[1].split("\n## ", 1)[0]
OPENS = re.compile(
    r"^\s*(?:import|from) (?:socket|socketserver|ssl|asyncio|http|urllib|xmlrpc|ftplib|smtplib|selectors|distributed)\b"
    r"|import_module\(\"distributed|from multiprocessing import (?:connection|managers)|multiprocessing\.managers",
    re.MULTILINE,
)
NETWORK_CALLS = re.compile(r"\b(?:socket|socketpair|bind|listen|accept4?|connect)\s*\(")


def test_only_farms_launch_and_traced_programs_open_sockets() -> None:
    paths = [
        path for part in ("mavcg", "passes", "kernels", "profiles", "runtime") for path in (ROOT / part).rglob("*.py")
    ]
    users = {str(path.relative_to(ROOT)) for path in paths if OPENS.search(path.read_text())}
    of_farms = {
        "mavcg/lab/commands/farm.py",
        "mavcg/lab/jobs/dask_engine.py",
        "mavcg/lab/farm/service.py",
        *(f"mavcg/lab/connections/{name}.py" for name in ("check_scheduler", "dask_limits", "token")),
    }
    of_launch = {"mavcg/program/launch_door.py", "mavcg/program/launch_server.py"}
    assert users == of_farms | of_launch | {"mavcg/lab/simulate/process_emulator.py"}  # a pair without a name


def test_no_c_of_ours_opens_one_but_that_of_launch() -> None:
    sources = [
        path for folder in ("mavcg", "runtime") for path in (ROOT / folder).rglob("*") if path.suffix in (".c", ".h")
    ]
    assert len(sources) > 20
    assert [path.name for path in sources if NETWORK_CALLS.search(path.read_text())] == ["launch_door.h"]


def test_the_page_has_a_line_for_each() -> None:
    lines = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert lines == [
        "scheduler",
        "worker",
        "connection to a scheduler",
        "connection to a worker",
        "pipes to forked processes",
        "stream of a traced program",
        "resident process of `mavcg launch`",
    ]
    for word in ("127.0.0.1:8786", "--insecure", ".incbin", "remote_tasks.py", "TLS 1.3"):
        assert word in PAGE


@pytest.mark.parametrize("folder", ["docs", "mavcg", "examples", "."])
def test_no_page_and_no_message_prints_dasks_commands(folder: str) -> None:
    pattern = "*" if folder == "." else "**/*"
    texts = [
        path for path in (ROOT / folder).glob(pattern) if path.suffix in (".md", ".py", ".toml") and path.is_file()
    ]
    assert [str(path) for path in texts if re.search(r"dask[ -](?:scheduler|worker|ssh)\b", path.read_text())] == []


def test_what_the_hook_of_all_commands_sees() -> None:
    """The fixture `mavcg` of the tests wants commands without a farm to open none."""
    import socket

    with watched_sockets() as seen, socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
    assert seen == ["socket.bind ('127.0.0.1', 0)"]
    assert may_connect(["build", "--workers", "tls://a"]) and not may_connect(["build", "farm.onnx"])


def test_operations_that_run_or_write_are_not_among_the_allowed_ones() -> None:
    names = {name for kind in (*_OPERATIONS.values(), *_STREAMS.values()) for name in kind}
    assert not [
        name for name in names if re.search("^run|upload|plugin|dump|broadcast|proxy|actor|scatter|restart", name)
    ]
    assert not remote_tasks.is_worker()
