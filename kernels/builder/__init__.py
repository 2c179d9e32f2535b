"""Building blocks of kernels as LLVM IR: functions, loops, lanes, arithmetic and prefetch."""
