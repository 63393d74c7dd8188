// Refusals of the kernel, in words.
#pragma once

#include <string>

#include "base/error.hpp"

namespace ddprun::os {

// Returns "no such file or directory": strerror with a small first letter.
std::string describe_errno(int error);

// Returns "<what>: <errno in words>", with a hint if one errno always calls for the same remedy.
Error system_failure(const std::string& what, int error);

}  // namespace ddprun::os
