"""Loops of branches that are mispredicted, and of loads that miss: caches, memory, prefetch, the window."""

from mavcg.lab.calibrate.loops import TimedLoop, Walk

KIB, MIB = 1 << 10, 1 << 20
MOST_FILLING = 480  # instructions between two loads that miss
COLD_BYTES = 64 * MIB  # of a walk whose nodes no cache has
MISS_LOADS = (2, 4, 6, 9, 12, 16, 24)
_MISSED = (*range(8), *range(16, 32))  # vectors whose lower halves a function need not keep
_UNROLLED = 16
_NODE = 4096  # of loads that miss together
# What fills a queue of the core between two loads that miss, by the fact that is the queue's size. x6 and x7: loaded.
FILLINGS = {
    "window.in_flight": ("nop", "nop"),
    "window.issue_queue": ("mul x8, x6, x9", "mul x8, x7, x9"),
    "window.load_queue": ("ldr x8, [x1]", "ldr x8, [x1]"),
    "window.store_queue": ("str x9, [x1, #256]", "str x9, [x1, #256]"),
}
_RANDOM = ("eor x6, x6, x6, lsl #13", "eor x6, x6, x6, lsr #7", "eor x6, x6, x6, lsl #17")


def each_memory_loop(has_window: bool) -> list[TimedLoop]:
    """Return one of the loops that differ in numbers alone, of each. has_window: of the core, which is out of order."""
    loops = [*branch_loops(), *split_loops(), walk_loop(KIB), cold_loop(), run_loop(1)]
    loops += [miss_loop(count) for count in MISS_LOADS]
    return [*loops, *(window_loop(fact, 1) for fact in FILLINGS)] if has_window else loops


def branch_loops() -> tuple[TimedLoop, TimedLoop]:
    """Return the loops of a branch on random bits, and on bits that are all 0; random by Marsaglia's xorshift64."""
    setup = ("mov x6, #0x9e37", "movk x6, #0x79b9, lsl #16", "movk x6, #0x7f4a, lsl #32", "mov x7, #0")
    return (
        TimedLoop("branch random", (*_RANDOM, "tbz x6, #20, 1f\n\tnop\n1:"), setup=setup, iterations=6000, warm=200),
        TimedLoop("branch known", (*_RANDOM, "tbz x7, #20, 1f\n\tnop\n1:"), setup=setup, iterations=6000, warm=200),
    )


def split_loops() -> tuple[TimedLoop, TimedLoop]:
    """Return the loops of loads that cross a line, and that do not."""
    split, whole = (
        TimedLoop(
            f"split at {offset}",
            ("ldr x6, [x6]",) * _UNROLLED,
            _UNROLLED,
            setup=(f"add x6, x1, #{offset}", "str x6, [x6]"),
        )
        for offset in (60, 64)
    )
    return split, whole


def walk_loop(footprint: int) -> TimedLoop:
    """Return the walk around through this many bytes, after a round that brings them into the caches."""
    rounds = max(1, footprint // 64 // _UNROLLED)
    return TimedLoop(
        f"walk {footprint}",
        ("ldr x6, [x6]",) * _UNROLLED,
        _UNROLLED,
        setup=("ldr x6, [x1]",),
        walk=Walk(footprint),
        iterations=rounds,
        warm=rounds,
    )


def cold_loop() -> TimedLoop:
    """Return the walk through lines of memory that no cache has."""
    walk = Walk(COLD_BYTES, cold=True)
    return TimedLoop(
        "walk cold", ("ldr x6, [x6]",) * _UNROLLED, _UNROLLED, setup=("ldr x6, [x1]",), walk=walk, iterations=64
    )


def run_loop(run: int) -> TimedLoop:
    """Return the walk through runs of lines that follow one another, which a prefetcher brings; by one load."""
    walk = Walk(COLD_BYTES, run=run, cold=True)
    return TimedLoop(f"walk runs {run}", ("ldr x6, [x6]",), setup=("ldr x6, [x1]",), walk=walk, iterations=512)


def miss_loop(count: int) -> TimedLoop:
    """Return the loop of this many loads that miss at once; cycles are of all of them."""
    body = (*(f"ldr d{_MISSED[n]}, [x6, #{64 * n}]" for n in range(1, count)), "ldr x6, [x6]")
    walk = Walk(COLD_BYTES, node_bytes=_NODE, cold=True)
    return TimedLoop(f"misses {count}", body, setup=("ldr x6, [x1]",), walk=walk, iterations=24)


def window_loop(fact: str, filling: int) -> TimedLoop:
    """Return the loop of two loads that miss, in walks of their own, with fillings between them; cycles are of both."""
    one, other = FILLINGS[fact]
    setup = ("ldr x6, [x1]", "ldr x7, [x1, #64]", "mov x9, #1", *_entry("x3", "3f"), *_entry("x4", "4f"))
    body = ("ldr x6, [x6]", "br x3", *[one] * MOST_FILLING, "3: ldr x7, [x7]", "br x4", *[other] * MOST_FILLING, "4:")
    walk = Walk(COLD_BYTES, cold=True)
    return TimedLoop(f"{fact} {filling}", body, setup=setup, walk=walk, iterations=24, parameter=filling)


def _entry(register: str, label: str) -> tuple[str, str]:
    """Return the instructions that put the address before the last x5 fillings into a register."""
    return f"adr {register}, {label}", f"sub {register}, {register}, x5, lsl #2"
