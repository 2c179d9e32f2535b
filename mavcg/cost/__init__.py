"""The cost model of a kernel on a core: the core's facts, its instruction rates, its memory levels, its threads.

Layers: fits (constants of profiles/fits), memory (time of bytes through memory levels), guided_chunks (time of a step
that threads share)  <  instruction_mix (cycles of instructions), board_model (cores of a board)  <  core_rates
(all
facts of one core). Register tiling, macro-tiles, algorithms, selection, `estimate` and thread plans count the work of a
kernel; these modules convert the counts to time.
"""
