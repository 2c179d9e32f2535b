"""Examples of each command's --help, run where a module of nearly every name lies in the current folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mavcg.cli.planted import MARK, commands_by_name, examples_of, lay_out
from tests.mavcg.cli.verbs import SERVERS, VERBS


@pytest.mark.long
def test_nothing_planted_is_executed_by_an_example_of_any_command(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two rounds, since some examples read what others write; as many commands as can run beside such files."""
    lay_out(tmp_path)
    script = tmp_path_factory.mktemp("bin") / "mavcg"
    script.write_text("import sys\nfrom mavcg.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n")
    done: set[tuple[str, ...]] = set()
    for _ in range(2):
        for verb, command in commands_by_name().items():
            for words in examples_of(command):
                if verb in done or verb in SERVERS:
                    break
                files = [word for word in words if re.fullmatch(r"[\w.]+\.(onnx|S|so|c|csv|npy|elf|toml|json)", word)]
                outputs = {after for option, after in zip(words, words[1:], strict=False) if option == "-o"}
                if all((tmp_path / name).exists() for name in set(files) - outputs):
                    ended = subprocess.run(
                        [sys.executable, str(script), *words], cwd=tmp_path, capture_output=True, text=True
                    )
                    assert not (tmp_path / MARK).exists(), (verb, words, (tmp_path / MARK).read_text())
                    if ended.returncode == 0:
                        done.add(verb)
    assert len(done) >= 12, sorted(set(VERBS) - done)
