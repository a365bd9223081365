#include "graph/emission.h"

#include <stdexcept>
#include <string>

namespace torch_pjrt::graph {

void Emission::result(size_t i, Operand operand) {
  if (!(operand.type() == result_type(i))) {
    throw std::logic_error("lowering " + std::string(node_.op().name) + ": result " +
                           std::to_string(i) + " has the wrong type; got " +
                           to_string(operand.type()) + ", expected " + to_string(result_type(i)) +
                           "; this is a defect of torch-pjrt, please report it");
  }
  results_[i] = operand;
}

}  // namespace torch_pjrt::graph
