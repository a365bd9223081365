"""PyTorch's operator database, run on device xla and on the CPU."""
