"""Strangers' software under `mavcg launch`: Debian's source packages, built as they are and with versions."""
