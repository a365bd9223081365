"""Programs of `torch.export` as folders: written by `export`, run by `load`."""
