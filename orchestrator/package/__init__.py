"""Local version, tags, and the wheel index."""
