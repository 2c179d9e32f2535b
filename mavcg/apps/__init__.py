"""Applications of several CNNs: one memory for all, processing by parts (Minakova, "System-level design for efficient
execution of CNNs at the edge", 2022, chapter 6)."""
