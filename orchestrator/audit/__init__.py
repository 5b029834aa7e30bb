"""ELF, fatbin, cubin, coverage, policy check: bytes in, facts and verdicts out. Standard library only."""
