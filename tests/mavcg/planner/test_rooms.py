"""What a model build loads of the planner: the layer model and the engine's tiling, not the accelerators' planning."""

import subprocess
import sys

BUILD = """
import sys
import mavcg.cli.build_model, mavcg.model.model, mavcg.model.request
print(*(name for name in sys.modules if name.startswith("mavcg.planner.")))
"""


def test_a_model_build_does_not_load_the_accelerators_planning() -> None:
    done = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()

    assert "mavcg.choose.tiles.tiles" in loaded and "mavcg.choose.layer_model.traffic" in loaded
    assert not [name for name in loaded if name.startswith("mavcg.accelerators.plans")]
