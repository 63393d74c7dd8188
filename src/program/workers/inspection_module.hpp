// The text of the Python files in inspection/ and standby/.
#pragma once

#include <string_view>

namespace ddprun::workers {

extern const std::string_view k_inspection_module;  // ddprun_inspection.py
extern const std::string_view k_answer_module;      // ddprun_answer.py
extern const std::string_view k_standby_module;     // sitecustomize.py
extern const std::string_view k_imports_module;     // imports.py

}  // namespace ddprun::workers
