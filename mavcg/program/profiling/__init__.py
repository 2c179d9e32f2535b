"""perf, simpleperf and callgrind output -> one table of samples -> a ranking of functions."""
