"""Measurements for a selection: the list of jobs, and interleaved measurements of the fastest candidates."""
