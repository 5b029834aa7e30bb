"""sparkbuild: builds the CUDA Python stack from source for one GPU, and proves what is in every wheel."""
