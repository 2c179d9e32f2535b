"""Small TFLite files that ask for much, given to every verb that reads a model: one line, exit code 2, nothing left."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mavcg.conftest import Mavcg
from tests.mavcg.importers.tflite import shared_tables as shared

VERBS = {
    "build": "build m.tflite --board exynos9820",
    "build, partial": "build m.tflite --partial --board exynos9820",
    "build, boards": "build m.tflite --boards exynos9820,rk3588 -o out",
    "estimate": "estimate m.tflite --board exynos9820",
    "select": "select m.tflite --board exynos9820",
    "plan": "plan m.tflite --accelerator eyeriss",
    "explore": "explore m.tflite --space space.toml",
    "app build": "app build app.toml --board exynos9820",
    "app plan": "app plan app.toml --board exynos9820",
    "accel build": "accel build m.tflite --target zu2 -o m.elf",
    "tune": "tune m.tflite --board exynos9820 --runner ssh:nobody@127.0.0.1",
}
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "shared": (shared.names, "several tables share"),
    "sparse": (lambda: shared.sparse(20, shared.F32, (1 << 29) - 8), "stored sparse"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_them(verb: str, name: str, here: Path, mavcg: Mavcg) -> None:
    make, reason = FILES[name]
    (here / "m.tflite").write_bytes(make())
    (here / "app.toml").write_text('[[network]]\nname = "a"\nfile = "m.tflite"\n')
    (here / "space.toml").write_text("[board]\nmix = [{ cortex-a55 = 4 }]\nmax_khz = { cortex-a55 = [1800000] }\n")
    before = {path for path in here.rglob("*") if path.is_file()}
    ended = mavcg(*VERBS[verb].split())
    assert ended.status == 2 and not ended.stdout
    assert ended.stderr.count("\n") == 1 and reason in ended.stderr and "m.tflite" in ended.stderr
    assert {path for path in here.rglob("*") if path.is_file()} == before
