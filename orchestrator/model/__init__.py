"""Arch, recipe, stack, lock, policy: plain typed values, no I/O beyond reading the file."""
