"""Requests and answers of workers: only named tasks run, with checked arguments; hostile answers are refused."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.accelerators.explore.board_predictions import predict_boards
from mavcg.accelerators.explore.tilings import TileTraffic, search_tilings
from mavcg.errors import MavcgError
from mavcg.lab.farm.library_tasks import (
    EmittedModule,
    LinkTask,
    Refusal,
    compile_modules,
    ir_module,
    link_libraries,
    prepare_libraries,
)
from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, read_board_facts, run_board_task
from mavcg.lab.jobs import remote_tasks
from mavcg.lab.jobs.messages import Message, pack_message
from mavcg.lab.jobs.remote_tasks import (
    BOARD_TASKS,
    CHECKS,
    TASKS,
    VERSIONS,
    WorkerFault,
    answer_request,
    become_worker,
    read_answer,
    request_digest,
    request_message,
)
from mavcg.lab.runners.bench_lines import JobFailed
from mavcg.lab.runners.bench_run import BenchOptions
from tests.mavcg.lab.farm.board_requests import two_requests


def compiler_digest() -> str:
    """A version that costs no time, under the name of one of the versions."""
    return "the same"


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(remote_tasks, "_allowed", set())
    monkeypatch.setattr(remote_tasks, "_version", lambda name: "the same")
    become_worker(boards=False)
    yield


def asked(work: Callable[..., Any], argument: Any, version: Callable[[], str] = compiler_digest) -> Any:
    """The result of a task that this process runs as a worker would."""
    request = request_message(work, argument, version)
    return read_answer(work, argument, request_digest(request), answer_request(request))


def told(work: Callable[..., Any], argument: Any, result: Any, **labels: str) -> Any:
    """The result that the client reads if a worker answers with this value."""
    request = request_message(work, argument, compiler_digest)
    digest = request_digest(request)
    return read_answer(work, argument, digest, pack_message(result, **({"request": digest} | labels)))


def test_every_task_and_every_check_is_there() -> None:
    import importlib

    for name, module in (*TASKS.items(), *VERSIONS.items()):
        assert callable(getattr(importlib.import_module(module), name))
    for name, module in CHECKS.items():
        assert callable(getattr(importlib.import_module(module), f"check_{name}"))
    assert set(TASKS) - set(CHECKS) == {"read_board_facts"} and set(TASKS) >= BOARD_TASKS


@pytest.fixture(scope="module")
def linked(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A library task, its prepared library, the task to link it with its objects, and the linked files."""
    from mavcg.lab.farm.build_farm import library_tasks

    (task, _) = library_tasks(two_requests(tiny_onnx, tmp_path_factory.mktemp("linked")), lambda message: None)
    (prepared,) = prepare_libraries((task,))
    objects = compile_modules(prepared.ir)  # type: ignore[union-attr]
    link = LinkTask(task, prepared, objects)  # type: ignore[arg-type]
    (files,) = link_libraries((link,))
    return task, prepared, link, files


def test_a_library_by_messages_has_the_bytes_of_one_by_calls(linked: Any) -> None:
    task, prepared, link, files = linked
    (received,) = asked(prepare_libraries, (task,))
    assert received.ir == prepared.ir and received.modules == prepared.modules
    objects = asked(compile_modules, received.ir)
    assert objects == link.objects
    (by_messages,) = asked(link_libraries, (LinkTask(task, received, objects),))
    assert by_messages.files == files.files


def test_a_process_that_has_not_joined_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_tasks, "_allowed", set())
    with pytest.raises(WorkerFault, match="it does not run the task 'search_tilings'"):
        asked(search_tilings, ())


def test_boards_are_measured_only_by_workers_that_have_some(tmp_path: Path) -> None:
    with pytest.raises(WorkerFault, match="does not run the task 'read_board_facts'; it was given no boards"):
        asked(read_board_facts, "local")
    become_worker(boards=True)
    assert asked(read_board_facts, "ssh:").startswith("--runner ssh:")


@pytest.mark.parametrize("name", ["system", "answer_request", "_choose_and_plan", "check_link_libraries", ""])
def test_no_other_function_is_run(name: str) -> None:
    request = pack_message(("true",), task=name, version="the same", version_of="compiler_digest")
    answer = Message(answer_request(request))
    assert answer.labels["fault"] == "failed" and "does not run the task" in answer.value(str)


def test_another_version_is_refused() -> None:
    def fingerprint() -> str:
        return "older"

    with pytest.raises(WorkerFault, match="has another version of mavcg, or other measured costs"):
        asked(search_tilings, (), fingerprint)


@pytest.mark.parametrize("request_", [b"", b"garbage", pack_message(1), pack_message((), task="search_tilings")])
def test_a_request_that_is_none_gets_an_answer(request_: bytes) -> None:
    assert Message(answer_request(request_)).labels["fault"] in ("failed", "other version")


def test_an_argument_of_another_type_is_refused() -> None:
    request = pack_message(("a key",), task="search_tilings", version="the same", version_of="fingerprint")
    assert "where" in Message(answer_request(request)).value(str)


def test_what_a_task_refuses_and_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(argument: str) -> str:
        raise MavcgError("net.onnx: cannot be read; name another")

    def fail(argument: str) -> str:
        raise ZeroDivisionError("by nothing")

    for work in (refuse, fail):
        monkeypatch.setitem(TASKS, work.__name__, __name__)
        monkeypatch.setitem(globals(), work.__name__, work)
    become_worker(boards=False)
    with pytest.raises(MavcgError, match=r"^net.onnx: cannot be read; name another$"):
        asked(refuse, "a")
    with pytest.raises(WorkerFault, match=r"failed \(ZeroDivisionError: by nothing\)"):
        asked(fail, "a")


@pytest.mark.parametrize("answer", [None, 7, b"", b"\x80\x04.", {"files": []}, pack_message(()), bytearray(b"x")])
def test_what_is_no_answer(answer: Any) -> None:
    with pytest.raises(WorkerFault, match="^sent "):
        read_answer(search_tilings, (), "a" * 64, answer)


def test_results_of_other_kinds() -> None:
    for result in ("text", ("text",), [None], {"a": 1}, None, (TileTraffic,) and (1.5,)):
        with pytest.raises(WorkerFault, match="^sent "):
            told(search_tilings, (), result)
    with pytest.raises(WorkerFault, match="sent 1 results for 0 requests"):
        told(search_tilings, (), (None,))
    with pytest.raises(WorkerFault, match="an answer to another request"):
        told(search_tilings, (), (), request="0" * 64)


def test_figures_that_there_are_not(linked: Any) -> None:
    with pytest.raises(WorkerFault, match="negative"):
        told(search_tilings, ("key",), (TileTraffic(1, -1, 1, (1,), "os"),))
    for text in (
        "",
        "[]x",
        "[[1]]",
        '[["a", 1]]',
        '[[{"a55": 1}, "fast"]]',
        '[[{"a": 1}, NaN]]',
        '[[{"a": []}, 1]]',
        "[" * 100_000,
    ):
        with pytest.raises(WorkerFault, match="no prediction"):
            told(predict_boards, ("board",), (text,))
    assert told(predict_boards, ("board",), ('[[{"cortex-a55": 1}, 2.5]]',))


def test_results_of_jobs_that_were_not_asked_for() -> None:
    options = BenchOptions()
    task = BoardTask("local", b"", 4, ((1, 2),), False, (0,), None, options)
    assert told(run_board_task, task, BoardAnswer((JobFailed(1, "why"),))).results
    with pytest.raises(WorkerFault, match="job 3, which was not asked for"):
        told(run_board_task, task, BoardAnswer((JobFailed(3, "why"),)))


def test_a_module_under_the_digest_of_another_one(linked: Any) -> None:
    task, prepared, *_ = linked
    first = prepared.ir[0]
    hostile = replace(prepared, ir=(replace(first, text=first.text + "; other code\n"), *prepared.ir[1:]))
    with pytest.raises(WorkerFault, match="with the digest of another one"):
        told(prepare_libraries, (task,), (hostile,))
    with pytest.raises(WorkerFault, match="another number of modules"):
        told(prepare_libraries, (task,), (replace(prepared, ir=()),))
    assert ir_module(prepared.modules[0]).digest == first.digest


def test_what_is_no_object(linked: Any) -> None:
    module: EmittedModule = linked[1].ir[0]
    with pytest.raises(WorkerFault, match="no object file"):
        told(compile_modules, (module,), (b"#!/bin/sh\n",))
    assert told(compile_modules, (module,), (Refusal("no room"),)) == (Refusal("no room"),)


NAMES = ["../x", "/etc/cron.d/x", "..", ".", "", "libtiny.so/../x", ".bashrc", "a.txt", "LIBTINY.so", "tiny.h\0", "lib"]


@pytest.mark.parametrize("name", NAMES)
def test_files_of_other_names_are_refused(linked: Any, name: str) -> None:
    _, _, link, files = linked
    for hostile in ((*files.files, (name, b"evil")), ((name, files.files[0][1]), *files.files[1:])):
        with pytest.raises(WorkerFault, match=r"sent a file of the name '.*', which is none of libtiny.so, tiny.h, "):
            told(link_libraries, (link,), (replace(files, files=hostile),))


def test_missing_and_repeated_files_and_other_reports(linked: Any) -> None:
    _, _, link, files = linked
    assert told(link_libraries, (link,), (files,)) == (files,)
    for hostile in ((), files.files[1:], files.files[:2], (*files.files, files.files[1]), files.files[::-1]):
        with pytest.raises(WorkerFault, match="sent other files than libtiny.so"):
            told(link_libraries, (link,), (replace(files, files=hostile),))
    with pytest.raises(WorkerFault, match="sent what is no library"):
        script = (files.files[0][0], b"#!/bin/sh\n")
        told(link_libraries, (link,), (replace(files, files=(script, *files.files[1:])),))
    changes: list[dict[str, Any]] = [
        {"output": "/etc/passwd"},
        {"library_bytes": "many"},
        {"kernels": None},
        {"versions": 3},
        {"code_bytes": True},
        {"more": b"bytes"},
        {"more": float("nan")},
    ]
    for change in changes:
        with pytest.raises(WorkerFault, match="report"):
            told(link_libraries, (link,), (replace(files, document=dict(files.document) | change),))
    assert json.dumps(files.document)


def test_a_worker_reads_and_writes_no_files_of_the_clients_choice(linked: Any, tmp_path: Path) -> None:
    task, prepared, link, _ = linked
    request = task.request
    for change in (
        {"aar": tmp_path / "x.aar"},
        {"weights": tmp_path / "x"},
        {"db": tmp_path / "x.sqlite"},
        {"graph": None},
        {"output": tmp_path / ".."},
        {"output": tmp_path / ".profile"},
    ):
        hostile = replace(task, request=replace(request, **change))
        (answer,) = asked(prepare_libraries, (hostile,))
        assert isinstance(answer, Refusal) and "workers " in answer.reason
        (answer,) = asked(link_libraries, (replace(link, task=hostile),))
        assert isinstance(answer, Refusal) and "workers " in answer.reason
    modules = (replace(prepared.modules[0], name="../x"), *prepared.modules[1:])
    (answer,) = asked(link_libraries, (replace(link, library=replace(prepared, modules=modules)),))
    assert isinstance(answer, Refusal) and "is no name of a file" in answer.reason
    module = prepared.ir[0]
    flags = (*module.settings.flags, "-fplugin=evil.so")
    hostile = replace(module, settings=replace(module.settings, flags=flags))
    (answer,) = asked(compile_modules, (hostile,))
    assert isinstance(answer, Refusal) and "-fplugin=evil.so: is no flag of kernels" in answer.reason
    assert not any(tmp_path.iterdir())
