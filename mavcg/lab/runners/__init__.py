"""Measuring on a machine (this one, a board over ssh, a phone over adb) by a small program that is copied to it."""
