"""The Dynamo backend `pjrt`, so that `torch.compile(f, backend="pjrt")` runs on device xla.

Importing `torch_pjrt` imports only `registration` from here: the rest needs torch._dynamo, which
takes seconds to import, and comes with the first compilation.
"""
