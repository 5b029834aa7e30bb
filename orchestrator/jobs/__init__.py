"""The gate at the compiler: one budget of CPU and memory for all units of a run, and what units cost."""
