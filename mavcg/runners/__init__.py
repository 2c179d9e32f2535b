"""Measuring on a machine: this one, a board over ssh, a phone over adb, all by one small program that is sent there."""
