"""GPUs from TOML, and what a multiprocessor has room for."""

from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.profiles.gpus import gpu_names, load_gpu, read_gpu


@pytest.mark.parametrize("name", gpu_names())
def test_every_fact_has_a_source(name: str) -> None:
    gpu = load_gpu(name)

    assert {"arch", "sms", "clock_mhz", "memory_gb_per_s"} <= {fact for fact, _ in gpu.sources}
    assert all(source for _, source in gpu.sources)


def test_peaks_are_the_data_sheets() -> None:
    assert load_gpu("h100").peak_gmac_per_s * 2 / 1000 == pytest.approx(66.9, abs=0.1)  # 67 TFLOP/s of f32
    assert load_gpu("rtx-3090").peak_gmac_per_s * 2 / 1000 == pytest.approx(35.6, abs=0.1)


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks"),
    [
        (256, 32, 0, 8),  # threads: 2048
        (256, 128, 0, 2),  # 65536 registers
        (256, 129, 0, 0),  # rounded up to 136: more than the 32768 of a block
        (128, 255, 0, 2),
        (160, 151, 0, 0),  # five warps count as eight: two in each of four partitions
        (64, 32, 16384, 4),  # 64 KB
        (64, 146, 0, 6),  # 3 warps of 152 registers in each of four partitions
        (1024, 65, 0, 0),
        (64, 32, 49153, 0),
    ],
)
def test_blocks_of_a_jetson_tx2s_multiprocessor(threads: int, registers: int, shared_bytes: int, blocks: int) -> None:
    assert load_gpu("jetson-tx2").resident_blocks(threads, registers, shared_bytes) == blocks


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared_bytes", "blocks"),
    [
        ("h100", 96, 22, 12691, 16),
        ("h100", 32, 57, 10024, 20),
        ("h100", 128, 18, 16906, 12),
        ("orin-nano", 64, 22, 10925, 13),
        ("orin-nano", 32, 124, 17546, 8),
        ("rtx-3090", 32, 110, 6804, 12),
        ("rtx-3090", 64, 120, 16023, 5),
        ("jetson-tx2", 512, 92, 6926, 0),
        ("jetson-tx2", 384, 132, 19673, 0),
    ],
)
def test_blocks_are_those_of_nvidias_own_header(
    name: str, threads: int, registers: int, shared_bytes: int, blocks: int
) -> None:
    """By cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h (nvidia-cuda-runtime-cu12 12.9.79).

    Rows are of 16,000 random blocks that were compared; all 16,000 agree.
    """
    assert load_gpu(name).resident_blocks(threads, registers, shared_bytes) == blocks


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('value = "sm_62"', 'value = "sm_52"', "sm_61"),
        ("value = 2,", "value = -2,", "sms: -2"),
        ("value = 2,", 'value = "two",', 'sms: "two"'),
        ("sms = {", "smss = {", "smss: no such key"),
        ("value = 59.7,", "value = 59700000000,", "memory_gb_per_s"),
        ("value = 49152,", "value = 131072,", "shared_bytes_of_block: 131072 is more"),
    ],
)
def test_a_wrong_file_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "profiles/gpus/jetson-tx2.toml").read_text()
    assert old in text
    path = tmp_path / "jetson-tx2.toml"
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(ProfileError, match=message):
        read_gpu(path)
