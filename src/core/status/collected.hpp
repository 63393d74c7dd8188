// Records collected of a rank to see where it is, whole and as they came.
#pragma once

#include <string>

namespace ddprun::status {

struct Collected {
  std::string record;       // torch's flight recorder: JSON
  std::string module;       // the answer of ddprun's module: JSON
  std::string dump;         // output of faulthandler
  std::string native;       // output of `native_tool`
  std::string native_tool;  // "eu-stack"
  std::string ras;          // answer of NCCL's RAS about the job, kept with the first rank of a host
};

}  // namespace ddprun::status
