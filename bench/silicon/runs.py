"""Calls of published functions as input of the models: compiled from a clone, traced once for all cores."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.silicon.calls import Call
from bench.silicon.clones import checked_out
from bench.silicon.dynamic_path import NotModelled, executed, ops_of
from bench.silicon.figures import SourceList
from bench.silicon.m4 import expand
from bench.silicon.models import Run
from mavcg.assembly.asm_source import preprocess
from mavcg.assembly.code_image import CodeImage, read_image
from mavcg.assembly.disassembly import CodeFile
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.models.main_loop import main_loop
from mavcg.toolchain.zig import run_zig

_TARGET = "aarch64-linux-gnu.2.17"
_EXTENSIONS = ".arch armv8.6-a+fp16+fp16fml+dotprod+i8mm+bf16+crypto+sve+sve2;"


class Runs:
    """The runs of one list's calls; each commit's files are assembled once, each call is traced once."""

    def __init__(self, source: SourceList, clone: Path) -> None:
        self.source, self.clone = source, clone
        self._images: dict[tuple[str, tuple[str, ...]], CodeImage | NotModelled] = {}
        self._objects: dict[tuple[str, tuple[str, ...]], bytes] = {}
        self._runs: dict[Call, Run | NotModelled] = {}

    def run(self, call: Call) -> Run:
        """Return the run of a call. Raises: NotModelled with the reason; MavcgError where the clone lacks it."""
        if call not in self._runs:
            try:
                image = self._image(call)
                symbol = call.former if call.former in image.symbols else call.symbol
                ops = ops_of(image, executed(image, symbol, call.arguments, self.source.most_instructions))
                self._runs[call] = Run(image, symbol, call.arguments, ops, self.source.in_a_row)
            except NotModelled as reason:
                self._runs[call] = reason
        known = self._runs[call]
        if isinstance(known, NotModelled):
            raise known
        return known

    def main_loop_cycles(self, call: Call, timing: Timing) -> float:
        """Return the modelled cycles per iteration of a function's main loop; its arguments do not matter.

        Raises: NotModelled if no such loop is found.
        """
        self._image(call)
        with scratch_folder("mavcg-silicon-") as folder:
            path = folder / "all.o"
            path.write_bytes(self._objects[call.commit, call.files])
            code = CodeFile(path)
            text = code.disassemble([call.symbol]).text if call.symbol in code.symbols else ""
        loop = main_loop(text, call.symbol, timing)
        if loop is None or not loop.is_hottest:
            raise NotModelled("the models cannot time its main loop")
        return loop.cycles

    def _image(self, call: Call) -> CodeImage:
        key = call.commit, call.files
        if key not in self._images:
            source = self.source
            with checked_out(self.clone, call.commit, source.folders, source.generated) as folder:
                self._images[key] = self._assemble(folder, call)
        known = self._images[key]
        if isinstance(known, NotModelled):
            raise known
        return known

    def _assemble(self, folder: Path, call: Call) -> CodeImage | NotModelled:
        """Assemble the call's files. Words that begin with "-" are options; what follows a ":" is for the generator."""
        files = [word for word in call.files if not word.startswith("-")]
        flags = [f"-D{name}" for name in self.source.defines]
        flags += [f"-I{folder / name}" for name in self.source.includes]
        flags += [word for word in call.files if word.startswith("-")]
        objects = []
        for number, word in enumerate(files):
            name, _, option = word.partition(":")
            if not (folder / name).exists():
                return NotModelled(f"no file {name} at this commit")
            text, out = folder / name, folder / f"{number}.o"
            if text.suffix == ".pl":
                # sha512-armv8.pl looks at its output's name.
                text = _generated(text, folder / f"{number}-{option or text.stem}.S")
            if text.suffix == ".asm":
                text = _expanded(text, option, folder / self.source.includes[0], folder / f"{number}.s")
            elif text.suffix == ".s":  # for projects that run the preprocessor over these too
                text = text.rename(text.with_suffix(".S"))
            if text.suffix == ".S":
                source = preprocess(text, flags).text
                text = folder / f"{number}.s"
                text.write_text(_EXTENSIONS + source, encoding="utf-8")
            words = ["-target", _TARGET, "-g0", *self.source.flags, *flags, "-c", str(text), "-o", str(out)]
            run_zig("c++" if text.suffix == ".cpp" else "cc", words, f"compiling {name}")
            objects.append(str(out))
        if len(objects) > 1:
            run_zig("ld.lld", ["-r", *objects, "-o", str(folder / "all.o")], "linking the files into one")
            objects = [str(folder / "all.o")]
        self._objects[call.commit, call.files] = Path(objects[0]).read_bytes()
        return read_image(Path(objects[0]), ", ".join(files))


def _expanded(source: Path, macro: str, folder: Path, out: Path) -> Path:
    """Write assembly in m4 with its macros expanded, this one defined as empty before; includes are in `folder`.

    Raises: MavcgError naming the file that cannot be read so.
    """
    try:
        text = expand(source.read_text(encoding="utf-8"), {macro: ""} if macro else {}, folder)
    except MavcgError as error:
        raise MavcgError(f"{source.name}: {error}") from None
    out.write_text(f"{_EXTENSIONS}\n{text}", encoding="utf-8")
    return out


def _generated(script: Path, out: Path) -> Path:
    """Run a perlasm script for 64-bit Linux and return its assembly.

    Raises: NotModelled without perl; MavcgError with the script's message if it fails.
    """
    perl = shutil.which("perl")
    if perl is None:
        raise NotModelled(f"{script.name} is run by perl, which is not here; install it (Debian: perl)")
    done = subprocess.run([perl, str(script), "linux64", str(out)], capture_output=True, text=True)
    if done.returncode:
        raise MavcgError(f"perl {script}: {done.stderr.strip()}")
    return out


def clone_paths(texts: list[str], names: Mapping[str, str]) -> dict[str, Path]:
    """Parse `--clone NAME=FOLDER`; `names` maps the lists to their addresses. Raises: MavcgError for a wrong one."""
    paths = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals or name not in names:
            raise MavcgError(f"--clone {text}: write NAME=FOLDER, with NAME one of {', '.join(names)}")
        if not Path(folder).is_dir():
            raise MavcgError(f"--clone {text}: no such folder; clone {names[name]} there")
        paths[name] = Path(folder)
    return paths
