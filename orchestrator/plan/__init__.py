"""Graph, effective arches, key, schedule: pure functions of values."""
