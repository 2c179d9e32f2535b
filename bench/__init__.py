"""Every figure of the README, and the commands that make them (bench/README.md)."""
