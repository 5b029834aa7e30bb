"""A CUDA project of two units, small enough to be built in seconds."""

__version__ = "1.0"
