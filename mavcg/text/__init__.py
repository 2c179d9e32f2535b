"""Text that contains names from files: escaped for each language, and printed safely on terminals."""
