"""Values in, new values out: rewrites of LLVM IR and of assembly. No files, no clocks, no threads."""
