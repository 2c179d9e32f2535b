"""Facts about silicon as TOML, and their loader."""
