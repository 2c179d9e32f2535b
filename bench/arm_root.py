"""A root of arm64 Debian with Python, other runtimes' wheels, and the facts of one core as a process sees them.

Packages and wheels are fetched into the cache folder (bench/wheels.py) once; nothing of them is in the repository.
onnxruntime and LiteRT end in a fault where their detection of the CPU finds no Arm machine in /proc and /sys, so the
root has these files of a machine with one core. The emulator opens paths below its root first.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.wheels import cache_folder, pip
from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.lab.simulate.process_emulator import emulated_midr

WHEELS = (
    "numpy==2.4.6",
    "ncnn==1.0.20261020",
    "onnxruntime==1.32.0",
    "ai-edge-litert==2.3.0",
    "MNN==3.6.1",
    # what the runtimes import
    "flatbuffers==25.12.19",
    "packaging==26.3",
    "protobuf==7.36.2",
    "typing_extensions==4.16.0",
    "tqdm==4.70.1",
    "backports.strenum==1.2.8",
)
PACKAGES = tuple(
    "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libstdc++6 libgcc-s1 zlib1g libexpat1 libssl3 "
    "libffi8 libbz2-1.0 liblzma5 libuuid1 libsqlite3-0 libgomp1 libatomic1".split()
)
_PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
# /proc/cpuinfo's names (Linux, arch/arm64/kernel/cpuinfo.c) of what every core since the A53 has, and by extension.
_FEATURES = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_FEATURES_BY_EXTENSION = {
    "lse": "atomics",
    "fullfp16": "fphp asimdhp",
    "rdm": "asimdrdm",
    "rcpc": "lrcpc",
    "dotprod": "asimddp",
    "fp16fml": "asimdfhm",
    "i8mm": "i8mm",
    "bf16": "bf16",
}


def _made(name: str, contents: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, made if missing. contents: identifies what `make` puts into it."""
    digest = hashlib.sha256(contents.encode()).hexdigest()[:16]
    folder = cache_folder().parent / "arm" / f"{name}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            make(made)
            if not folder.exists():
                os.rename(made, folder)
    return folder


def debian() -> Path:
    """Return the unpacked packages. Raises: MavcgError where they cannot be had."""
    return _made("debian", " ".join(PACKAGES), _unpack_packages)


def _unpack_packages(folder: Path) -> None:
    """Fetch the packages with lists of arm64 of their own: the machine's apt keeps its architectures."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise MavcgError("apt-get, dpkg-deb: not here; the other runtimes' Python comes from Debian's packages")
    with tempfile.TemporaryDirectory() as text:
        state = Path(text)
        for name in ("lists/partial", "cache/archives/partial", "got"):
            (state / name).mkdir(parents=True)
        (state / "status").touch()
        options = [
            "APT::Architecture=arm64",
            "APT::Architectures=arm64",
            "APT::Sandbox::User=root",
            f"Dir::State::Lists={state}/lists",
            f"Dir::State::status={state}/status",
            f"Dir::Cache={state}/cache",
            "Acquire::Languages=none",
        ]
        apt = ["apt-get", "-q", *[word for option in options for word in ("-o", option)]]
        _run([*apt, "update"], state)
        _run([*apt, "download", *PACKAGES], state / "got")
        for package in sorted((state / "got").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(folder)], state)


def site_packages() -> Path:
    """Return the folder of the unpacked wheels. Raises: MavcgError where they cannot be had."""
    return _made("wheels", " ".join(WHEELS), _unpack_wheels)


def _unpack_wheels(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as got:
        platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_aarch64")]
        python = ["--python-version", "3.11", "--implementation", "cp"]
        pip("download", "-q", "--no-deps", "--only-binary=:all:", *python, *platforms, "-d", got, *WHEELS)
        for wheel in sorted(Path(got).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)


def root_of(core: Core) -> Path:
    """Return a root in which processes see one core of this type. Raises: MavcgError for a core without a MIDR."""
    if not core.midr:
        raise MavcgError(f"cores/{core.name}.toml: has no midr; name a core that has one")
    base, files = debian(), core_files(core)
    contents = repr((str(base), sorted(files.items())))

    def make(folder: Path) -> None:
        for entry in base.iterdir():
            (folder / entry.name).symlink_to(entry)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

    return _made(core.name, contents, make)


def core_files(core: Core) -> dict[str, str]:
    """Return /proc/cpuinfo and the files of /sys of a machine with one core of this type, by path."""
    midr, rule = emulated_midr(core), core.midr[0]
    assert midr is not None
    more = [names for extension, names in _FEATURES_BY_EXTENSION.items() if extension in core.extensions]
    cpuinfo = {
        "processor": "0",
        "BogoMIPS": "48.00",
        "Features": " ".join([_FEATURES, *more]),
        "CPU implementer": f"{rule.implementer:#04x}",
        "CPU architecture": "8",
        "CPU variant": f"{midr >> 20 & 15:#x}",
        "CPU part": f"{rule.part:#05x}",
        "CPU revision": "0",
    }
    cpus = "sys/devices/system/cpu"
    topology = {"core_id": "0", "physical_package_id": "0", "cluster_id": "0", "core_siblings_list": "0"}
    topology |= {"thread_siblings_list": "0", "core_cpus_list": "0", "package_cpus_list": "0"}
    return {
        "proc/cpuinfo": "".join(f"{name}\t: {value}\n" for name, value in cpuinfo.items()),
        f"{cpus}/possible": "0\n",
        f"{cpus}/present": "0\n",
        f"{cpus}/online": "0\n",
        f"{cpus}/kernel_max": "0\n",
        f"{cpus}/cpu0/regs/identification/midr_el1": f"{midr:#018x}\n",
        f"{cpus}/cpu0/cpufreq/cpuinfo_max_freq": "2000000\n",
        f"{cpus}/cpu0/cpufreq/cpuinfo_min_freq": "500000\n",
        **{f"{cpus}/cpu0/topology/{name}": f"{value}\n" for name, value in topology.items()},
    }


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MavcgError(f"{command[0]}: failed ({last}); are Debian's servers reachable?")
