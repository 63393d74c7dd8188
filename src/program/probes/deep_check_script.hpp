// The text of deep_check.py.
#pragma once

#include <string_view>

namespace ddprun::probes {

extern const std::string_view k_deep_check_script;

}  // namespace ddprun::probes
