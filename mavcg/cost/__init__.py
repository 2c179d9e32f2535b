"""The cost model of a kernel on a core: the core's facts, its memory levels, the threads beside it.

board_model (cores of a board, as CoreModel) | kernel_cost (cycles of a kernel's counted work, by term) | memory (time
of bytes through memory levels) | guided_chunks (time of a step that threads share) | core_facts (what a simulated core
has). Register tiling, macro-tiles, algorithms, selection, `estimate` and thread plans count the work of a kernel; these
modules convert the counts to time.
"""
