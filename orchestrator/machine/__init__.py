"""The machine and what goes wrong on it: faults in logs and listings."""
