"""Find nvcc and the host compiler, or provide the toolkit as a layer; what exactly is in use."""
