"""Coverage-guided fuzzing of everything that reads a file: `make fuzz`; README.md says how a target is added."""
