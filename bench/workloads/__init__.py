"""Training steps that exist twice, in PyTorch and in JAX, from the same initial numpy weights."""
