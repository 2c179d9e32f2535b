"""Object files and libraries: linked, inspected, listed in a bill of materials (ELF and Mach-O)."""
