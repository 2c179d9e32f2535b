"""Text that holds names from files: escaped for each language, printed safely on terminals."""
