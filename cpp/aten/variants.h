#pragma once

namespace torch_pjrt::aten {

// Registers in-place and out= variants that have no kernel of their own: each calls the functional
// operator of the same name and overload on the device and copies the result. To be called once,
// after all other kernels and decompositions are registered.
void register_variants();

}  // namespace torch_pjrt::aten
