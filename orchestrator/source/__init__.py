"""Resolve, fetch, verify, unpack, patch."""
