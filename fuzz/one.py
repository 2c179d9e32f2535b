"""Run one Python target under Atheris: `python -m fuzz.one TARGET [CORPUS..] [-libfuzzer_option=..]`.

A file instead of a corpus folder is run once."""

import importlib
import os
import sys

from fuzz.targets import NAMES
from fuzz.targets._files import temporary_in_memory


def main(words: list[str]) -> None:
    """Instrument what the target names, then hand over to libFuzzer, which ends the process."""
    if not words or words[0] not in NAMES:
        sys.exit(f"fuzz.one: name a target: {', '.join(NAMES)}")
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz.one: atheris is not installed; pip install 'mavcg[fuzz]'")
    temporary_in_memory()
    os.environ["MAVCG_CACHE"] = "off"  # tables of inputs would fill this user's, and each is read once
    target = importlib.import_module(f"fuzz.targets.{words[0]}")
    with atheris.instrument_imports(include=list(target.PACKAGES)):
        for package in target.PACKAGES:
            importlib.import_module(package)
        target.run(b"")
    options = {"custom_mutator": target.mutate} if hasattr(target, "mutate") else {}
    atheris.Setup([f"fuzz.one {words[0]}", *words[1:]], target.run, **options)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
