// What was collected of a rank to see where it is, whole and as it came.
#pragma once

#include <string>

namespace ddprun::inspect {

struct Collected {
  std::string record;       // of torch's flight recorder: JSON
  std::string module;       // the answer of ddprun's module: JSON
  std::string dump;         // what faulthandler wrote
  std::string native;       // what `native_tool` printed
  std::string native_tool;  // "eu-stack"
  std::string ras;          // what NCCL's RAS says of the job, with the first rank of a host
};

}  // namespace ddprun::inspect
