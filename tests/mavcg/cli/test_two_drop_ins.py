"""Libraries of ONNX Runtime and of LiteRT in one process, used in turns and in threads."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert.interpreter")

from tests.mavcg.cli.litert_models import X, chain, delegated, invoke  # noqa: E402
from tests.mavcg.cli.partial_models import ARRAYS, check_results, make_model  # noqa: E402
from tests.mavcg.importers.tflite.conftest import Writer, litert  # noqa: E402


@pytest.mark.long
def test_two_drop_ins_in_one_process(mavcg: Any, here: Path, cores: tuple[str, str]) -> None:
    make_model(here / "net.onnx", batch=1)
    data = chain(Writer())
    (here / "m.tflite").write_bytes(data)
    for model, library in (("net.onnx", "libnet.so"), ("m.tflite", "libm.so")):
        ended = mavcg("build", model, "--partial", "--cores", cores[1], "-o", library)
        assert ended.status == 0, ended.stderr
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(here / "libnet.so"))
    session = onnxruntime.InferenceSession(str(here / "net.mavcg.onnx"), options)
    (first,), interpreter = delegated(here / "m.tflite", X, quiet="1")
    check_results(session.run(None, ARRAYS), here / "net.onnx", ARRAYS)
    assert np.abs(first - litert(data, [X])[0]).max() <= 1e-5 * np.abs(first).max()

    want = session.run(["y"], ARRAYS)[0]
    wrong: list[str] = []

    def run_session() -> None:
        wrong.extend("onnx" for _ in range(100) if (session.run(["y"], ARRAYS)[0] != want).any())

    thread = threading.Thread(target=run_session)
    thread.start()
    wrong.extend("tflite" for _ in range(100) if (invoke(interpreter, X)[0] != first).any())
    thread.join()

    assert not wrong and (invoke(interpreter, X)[0] == first).all()
