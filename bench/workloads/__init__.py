"""Work that exists twice, in PyTorch and in JAX, on the same numpy arrays."""
