"""A project of three files whose build knows nothing of mavcg."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mavcg.cli.launch.projects import COLD, DOT, HOT, config


@pytest.fixture
def project(here: Path, cores: Sequence[str], gcc: object) -> Path:
    """A folder with hot.c, cold.c, main.c and a mavcg.toml that names dot for two cores."""
    (here / "hot.c").write_text(HOT)
    (here / "cold.c").write_text(COLD)
    (here / "main.c").write_text(f"{DOT};\nint main(void) {{ short a[40] = {{3, 4}}; return dot(a, a, 40); }}\n")
    config(here, "dot", cores)
    return here
