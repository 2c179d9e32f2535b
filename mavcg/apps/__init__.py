"""Applications of several CNNs in one memory, with processing by parts.

Source: Minakova, "System-level design for efficient execution of CNNs at the edge", 2022, chapter 6.
"""
