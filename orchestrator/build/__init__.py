"""Environments and layers, the stages, the process supervisor."""
