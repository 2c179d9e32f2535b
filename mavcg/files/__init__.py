"""Files and folders: temporary ones, ones that appear whole, TOML tables, isolated child processes."""
