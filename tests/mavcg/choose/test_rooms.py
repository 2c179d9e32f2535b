"""A model build loads the modules of the tiling, and none of the accelerators."""

import subprocess
import sys

BUILD = """
import sys
import mavcg.cli.build_model, mavcg.model.model, mavcg.model.request
print(*(name for name in sys.modules if name.startswith(("mavcg.choose.", "mavcg.accelerators."))))
"""


def test_a_model_build_loads_nothing_of_the_accelerators() -> None:
    done = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()

    assert "mavcg.choose.tiles.tiles" in loaded
    assert not [name for name in loaded if name.startswith("mavcg.accelerators")]
