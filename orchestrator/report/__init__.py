"""Events and their renderers."""
