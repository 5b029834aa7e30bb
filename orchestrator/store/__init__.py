"""Artifacts under keys, written atomically, never handed on unchecked."""
