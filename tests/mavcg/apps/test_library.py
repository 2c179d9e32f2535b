"""An application's library as its user has it: built by the command line, used in C and in Python."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.errors import MavcgError
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.machine import MIDRS, QEMU, SYSROOT, needs_qemu_and_libc
from tests.mavcg.apps.small_networks import NETWORKS, image, write_application

HERE = Path(__file__).parent
CORES = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
Mavcg = Callable[..., Any]
LIMIT = 450_000  # bytes of weights and buffers
QUICK = ("--cores", CORES, "--target", host_target().zig_name, "--tune", "off")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libapp.so of three networks that take turns, and a library of each beside it."""
    from mavcg.cli.app import run

    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("application")
    file = write_application(folder, f'memory = "{LIMIT} B"')
    assert run(["app", "build", str(file), "-o", str(folder / "libapp.so"), *QUICK]) == 0
    for name in NETWORKS:
        model, own = folder / f"{name}.onnx", folder / f"lib{name}.so"
        assert run(["build", str(model), "-o", str(own), *QUICK]) == 0
    return folder


def separately(folder: Path, name: str, x: Any) -> bytes:
    with mavcg.load(folder / f"lib{name}.so") as model:
        return model.run(x)[0].tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_in_python_with_the_bits_of_separate_libraries(built: Path, threads: int) -> None:
    with mavcg.load_application(built / "libapp.so", threads=threads) as app:
        assert app.networks == tuple(NETWORKS) and app.name == "app"
        for seed in range(2):
            for name in NETWORKS:
                x = image(name, seed)
                assert app[name].run(x)[0].tobytes() == separately(built, name, x)
        assert app.arena_bytes == max(app[name].arena_bytes for name in NETWORKS)
        with pytest.raises(MavcgError, match="has no network 'nobody'; there are detector, recogniser, tracker"):
            app["nobody"]
    with pytest.raises(MavcgError, match="the model is closed"):
        app["tracker"].run(image("tracker"))
    app.close()


def test_in_c(built: Path) -> None:
    for name in NETWORKS:
        (built / f"{name}.in").write_bytes(image(name).tobytes())
    program = built / "use_application"
    flags = ["-target", host_target().zig_name, "-O2", *PLAIN_CODE_FLAGS, "-Wall", "-Wextra", "-Werror", "-pthread"]
    run_zig(
        "cc",
        [*flags, f"-I{built}", str(HERE / "use_application.c"), f"-L{built}", "-lapp", "-o", str(program)],
        "compiling a program",
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    for threads in ("1", "3"):
        done = subprocess.run(
            [program, threads], cwd=built, env=environment, capture_output=True, text=True, timeout=300
        )
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        for name in NETWORKS:
            assert (built / f"{name}.out").read_bytes() == separately(built, name, image(name))


@pytest.mark.long
def test_a_run_while_the_memory_is_taken_is_refused_or_right(built: Path) -> None:
    """Each run of several threads gives the bits of a run alone, or says that the memory is taken."""
    right = {name: separately(built, name, image(name)) for name in NETWORKS}
    wrong: list[str] = []
    with mavcg.load_application(built / "libapp.so") as app:

        def run_often(name: str) -> None:
            for _ in range(300):
                try:
                    if app[name].run(image(name))[0].tobytes() != right[name]:
                        wrong.append(name)
                except MavcgError as error:
                    if "in the same memory" not in str(error):
                        wrong.append(str(error))

        threads = [threading.Thread(target=run_often, args=(name,)) for name in NETWORKS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_one_network_alone(built: Path) -> None:
    x = image("tracker")
    with mavcg.load(built / "libapp.so", network="tracker") as model:
        assert model.name == "tracker" and model.run(x)[0].tobytes() == separately(built, "tracker", x)
    for network, words in ((None, "holds several networks"), ("nobody", "has no network 'nobody'")):
        with pytest.raises(MavcgError, match=f"{words}; name one by .*: detector, recogniser, tracker"):
            mavcg.load(built / "libapp.so", network=network)
    with pytest.raises(MavcgError, match="holds one model"):
        mavcg.load(built / "libtracker.so", network="tracker")
    with pytest.raises(MavcgError, match="is not an application's library"):
        mavcg.load_application(built / "libtracker.so")


def test_the_verbs_take_a_network(built: Path, mavcg: Mavcg) -> None:
    library = built / "libapp.so"
    np.save(built / "x.npy", image("recogniser"))
    ended = mavcg("run", library, "--network", "recogniser", "--input", built / "x.npy", "-o", built / "y.npz")
    assert ended.status == 0, ended.stderr
    assert np.load(built / "y.npz")["y"].tobytes() == separately(built, "recogniser", image("recogniser"))

    ended = mavcg("bench", library, "--network", "tracker", "--seconds", "0", "--runs", "1", "--per-layer", "--json")
    assert ended.status == 0 and len(json.loads(ended.stdout)["measured"][0]["layers"]) > 3, ended.stderr

    ended = mavcg("inspect", library)
    assert ended.status == 0 and "3 networks" in ended.stdout and "detector, tracker" in ended.stdout
    ended = mavcg("inspect", library, "--network", "detector")
    assert ended.status == 0 and ended.stdout.startswith("model detector, versions:")

    ended = mavcg("inspect", library, "--sbom", "-")
    named = {component["name"] for component in json.loads(ended.stdout)["components"]}
    assert ended.status == 0 and {"mavcg-engine", "mavcg-application", *(f"{name}.onnx" for name in NETWORKS)} <= named

    for verb in (("run", library, "--seed", "0"), ("inspect", library, "--network", "nobody")):
        ended = mavcg(*verb)
        assert ended.status == 2 and "detector, recogniser, tracker" in ended.stderr
    ended = mavcg("run", built / "libtracker.so", "--network", "tracker", "--seed", "0")
    assert ended.status == 2 and "holds one model" in ended.stderr


@pytest.mark.long
def test_networks_that_run_together_have_memory_apart(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, 'parallel = [["detector", "tracker"]]')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libboth.so", "--json", *QUICK)
    assert ended.status == 0, ended.stderr
    report = json.loads(ended.stdout)
    of = {network["name"]: network for network in report["networks"]}
    ranges = {n: (of[n]["arena_offset"], of[n]["arena_offset"] + of[n]["arena_bytes"]) for n in of}
    first, last = sorted((ranges["detector"], ranges["tracker"]))
    assert first[1] <= last[0] and last[1] == report["arena_bytes"]
    assert report["arena_bytes"] < report["separate_arena_bytes"]
    assert of["detector"]["conflicts_with"] == ["detector", "recogniser"]
    assert of["recogniser"]["conflicts_with"] == ["detector", "recogniser", "tracker"]

    import mavcg as package

    x, both = {name: image(name) for name in NETWORKS}, ("detector", "tracker")
    with package.load_application(tmp_path / "libboth.so") as app:
        right = {name: app[name].run(x[name])[0].tobytes() for name in NETWORKS}
        wrong: list[str] = []

        def run_often(name: str) -> None:
            wrong.extend(name for _ in range(200) if app[name].run(x[name])[0].tobytes() != right[name])

        threads = [threading.Thread(target=run_often, args=(name,)) for name in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("head", "keys", "words"),
    [
        ('memory = "100 kB"', {}, "memory = 100000 bytes: the library takes"),
        ('parallel = [["detector", "nobody"]]', {}, "parallel: 'nobody' is not a network; choose one of detector"),
        ("", {"tracker": 'partitions = "auto:2"'}, "network 'tracker': partitions = 'auto:2': is balanced by"),
        ("", {"tracker": 'schedule = "a"\npartitions = ["c"]'}, "schedule: a pipeline of a library runs each"),
        ("", {"tracker": 'partitions = ["nobody"]'}, "network 'tracker': partitions: 'nobody' is not a computed layer"),
        ("", {"tracker": 'partitions = ["c", "a"]'}, "partitions: 'a' does not come after the first layer of"),
        ("", {"detector": 'precision = "int8"'}, "precision = 'int8': node 'a' of detector.onnx is computed in f32"),
        ("", {"tracker": "shapes = { nobody = [1, 3, 8, 8] }"}, "network 'tracker': "),
    ],
)
def test_what_cannot_be_built_is_refused(
    head: str, keys: dict[str, str], words: str, tmp_path: Path, mavcg: Mavcg
) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, head, **keys)
    before = sorted(tmp_path.iterdir())
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *QUICK)

    assert (ended.status, ended.stdout) == (2, "") and words in ended.stderr and "app.toml" in ended.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("app", "rename it, or name another output"),
        ("app_create", "rename it"),
        ("the tracker", "both are the_tracker"),
    ],
)
def test_names_that_collide_in_c_are_refused(name: str, words: str, tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path)
    text = file.read_text().replace('name = "tracker"', 'name = "the_tracker"')
    file.write_text(text.replace('name = "detector"', f'name = "{name}"'))
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *QUICK)

    assert ended.status == 2 and words in ended.stderr and not (tmp_path / "libapp.so").exists()


def test_a_limit_that_separate_libraries_miss(built: Path, mavcg: Mavcg) -> None:
    ended = mavcg("inspect", built / "libapp.so", "--json")

    assert ended.status == 0, ended.stderr
    note = json.loads(ended.stdout)
    assert note["weight_bytes"] + note["arena_bytes"] <= LIMIT < note["weight_bytes"] + note["separate_arena_bytes"]


@pytest.mark.long
def test_parts_of_rows_keep_the_limit(built: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    """Where the largest network's buffers are too many, it is computed by parts of rows, with the same bits."""
    file = write_application(tmp_path, 'memory = "200 kB"')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libsmall.so", "--json", *QUICK, "--max-error", "0")
    assert ended.status == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["weight_bytes"] + report["arena_bytes"] <= 200_000
    assert all(network["phases"] > 6 for network in report["networks"] if network["name"] == "detector")

    import mavcg as package

    with package.load_application(tmp_path / "libsmall.so", threads=2) as app:
        for name in NETWORKS:
            right = np.frombuffer(separately(built, name, image(name)), np.float32)
            np.testing.assert_allclose(app[name].run(image(name))[0].reshape(-1), right, rtol=0, atol=1e-4)


@pytest.mark.long
def test_a_detector_a_landmark_network_and_a_classifier(tmp_path: Path, mavcg: Mavcg) -> None:
    """BlazeFace, face landmarks and MobileNet v2 in one library, under a limit that separate libraries miss."""
    from bench.models import model_path

    files = {"blazeface": "blazeface", "face_landmark": "face_landmark", "mobilenet": "mobilenet_v2"}
    for model in files.values():
        try:
            model_path(model)
        except MavcgError as error:
            pytest.skip(str(error))
    tables = [f'[[network]]\nname = "{name}"\nfile = "{model_path(model)}"\n' for name, model in files.items()]
    (tmp_path / "app.toml").write_text("\n".join(tables))
    ended = mavcg("app", "build", tmp_path / "app.toml", "-o", tmp_path / "libapp.so", "--json", *QUICK)
    assert ended.status == 0, ended.stderr
    whole = json.loads(ended.stdout)
    assert whole["arena_bytes"] == max(n["arena_bytes"] for n in whole["networks"]) < whole["separate_arena_bytes"]

    limit = whole["weight_bytes"] + 2_000_000  # MobileNet v2 alone takes 6.19 MB of buffers layer by layer
    (tmp_path / "app.toml").write_text(f'memory = "{limit} B"\n' + "\n".join(tables))
    ended = mavcg("app", "build", tmp_path / "app.toml", "-o", tmp_path / "libparts.so", "--json", *QUICK)
    assert ended.status == 0, ended.stderr
    parts = json.loads(ended.stdout)
    assert parts["weight_bytes"] + parts["arena_bytes"] <= limit < whole["weight_bytes"] + whole["arena_bytes"]

    import mavcg as package
    from mavcg.runtime.random_inputs import random_inputs

    with package.load_application(tmp_path / "libapp.so") as a, package.load_application(tmp_path / "libparts.so") as b:
        for name in (*files, *files):
            arrays = random_inputs(a[name], 0)
            for first, second in zip(a[name].run(*arrays), b[name].run(*arrays), strict=True):
                np.testing.assert_allclose(first, second, rtol=0, atol=1e-3 * max(1.0, float(np.abs(first).max())))


@pytest.mark.long
@needs_qemu_and_libc
def test_on_emulated_cores(tmp_path: Path, mavcg: Mavcg, built: Path) -> None:
    """The same program on each core type of a board, with the same bits on all of them."""
    file = write_application(tmp_path)
    ended = mavcg("app", "build", file, "--board", "exynos9820", "-o", tmp_path / "libapp.so", "--max-error", "0")
    assert ended.status == 0, ended.stderr
    for name in NETWORKS:
        (tmp_path / f"{name}.in").write_bytes(image(name).tobytes())
    program = tmp_path / "use_application"
    flags = ["-target", "aarch64-linux-gnu.2.36", *PLAIN_CODE_FLAGS, "-Wall", "-pthread", f"-I{tmp_path}"]
    run_zig("cc", [*flags, str(HERE / "use_application.c"), f"-L{tmp_path}", "-lapp", "-o", str(program)], "compiling")
    results = set()
    for core, midr in MIDRS.items():
        assert QEMU and shutil.which(QEMU)
        command = [QEMU, "-cpu", f"max,midr={midr:#x}", "-L", str(SYSROOT), "-E", f"LD_LIBRARY_PATH={tmp_path}"]
        done = subprocess.run([*command, str(program), "2"], cwd=tmp_path, capture_output=True, text=True, timeout=1200)
        assert (done.returncode, done.stdout) == (0, "done\n"), f"{core}: {done.stderr}"
        results.add(tuple((tmp_path / f"{name}.out").read_bytes() for name in NETWORKS))
    assert len(results) == 1
    for name, made in zip(NETWORKS, results.pop(), strict=True):
        expected = np.frombuffer(separately(built, name, image(name)), np.float32)
        np.testing.assert_allclose(np.frombuffer(made, np.float32), expected, rtol=0, atol=1e-4)
