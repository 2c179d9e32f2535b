"""A GPU: its multiprocessors, the resources of a block of threads, and its memories."""

from dataclasses import dataclass

# Shared memory that the runtime reserves in every block, from compute capability 8.0 on (CUDA C++ Programming Guide,
# technical specifications per compute capability).
_RESERVED_BYTES = 1024
_ASYNC_COPIES_FROM = 80
# Registers are allocated to warps in units of 256, from four partitions, each of which serves a quarter of the warps.
# Shared memory is allocated in units of 256 bytes, 128 from compute capability 8.0 on (cuda_occupancy.h of CUDA 12.9:
# cudaOccRegAllocationGranularity, cudaOccSubPartitionsPerMultiprocessor, cudaOccSMemAllocationGranularity).
_REGISTER_UNIT, _PARTITIONS = 256, 4
_SHARED_UNIT_BEFORE_80, _SHARED_UNIT = 256, 128
WARP = 32


@dataclass(frozen=True)
class Gpu:
    """Facts of a GPU.

    arch: such as "sm_62". sms: number of multiprocessors. lanes: f32 multiply-adds of a multiprocessor per cycle. dp4a:
    int8 dot products of four elements of a multiprocessor per cycle. shared_bytes_of_block: most shared memory that a
    block may request. shared_bytes_of_sm: shared memory of a multiprocessor, for all its blocks. registers_of_block,
    registers_of_sm: the same for registers of four bytes. memory_gb_per_s, l2_gb_per_s: bandwidths in 10^9 bytes per
    second; l2_gb_per_s and l2_bytes are None without a source. sources: source of each fact, by name.
    """

    name: str
    description: str
    arch: str
    sms: int
    clock_mhz: float
    lanes: int
    dp4a: int
    shared_bytes_of_block: int
    shared_bytes_of_sm: int
    registers_of_block: int
    registers_of_sm: int
    threads_of_sm: int
    blocks_of_sm: int
    memory_gb_per_s: float
    l2_bytes: int | None = None
    l2_gb_per_s: float | None = None
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def capability(self) -> int:
        """Return the compute capability as a number: 62 for sm_62."""
        return int(self.arch.removeprefix("sm_"))

    @property
    def has_async_copies(self) -> bool:
        """Return True if cp.async copies from global to shared memory without registers (PTX ISA: sm_80 and later)."""
        return self.capability >= _ASYNC_COPIES_FROM

    @property
    def peak_gmac_per_s(self) -> float:
        """Return the peak rate of all multiprocessors, in 10^9 f32 multiply-adds per second."""
        return self.sms * self.lanes * self.clock_mhz / 1000

    def mac_per_cycle(self, type_name: str) -> float:
        """Return the multiply-accumulates of a multiprocessor per cycle, without tensor cores.

        type_name: f32, f16 or i8.
        """
        return 4.0 * self.dp4a if type_name == "i8" else float(self.lanes)

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Return the number of blocks that are resident on a multiprocessor at a time; 0 if one block is too large.

        threads: threads of a block. registers: registers of a thread. shared_bytes: shared memory of a block.
        """
        has_reserve = self.capability >= _ASYNC_COPIES_FROM
        reserved, unit = (_RESERVED_BYTES, _SHARED_UNIT) if has_reserve else (0, _SHARED_UNIT_BEFORE_80)
        warps = -(-threads // WARP)
        of_warp = -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        # A block's warps are rounded up to the same whole number in each partition.
        of_block = -(-warps // _PARTITIONS) * _PARTITIONS * of_warp
        if shared_bytes > self.shared_bytes_of_block or registers > 255 or of_block > self.registers_of_block:
            return 0
        warps_of_registers = self.registers_of_sm // _PARTITIONS // of_warp * _PARTITIONS
        shared = -(-(shared_bytes + reserved) // unit) * unit
        return min(
            self.blocks_of_sm,
            self.threads_of_sm // (warps * WARP),
            warps_of_registers // warps,
            self.shared_bytes_of_sm // max(1, shared),
        )
