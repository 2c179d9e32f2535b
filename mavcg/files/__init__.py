"""Files and folders: temporary ones, files that are written whole, TOML tables, isolated child processes."""
