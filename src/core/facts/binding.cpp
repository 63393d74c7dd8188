#include "facts/binding.hpp"

#include <fmt/format.h>

#include "facts/proc_text.hpp"

namespace ddprun::facts {

namespace {

std::string numbered(const char* word, const std::vector<int>& numbers) {
  return fmt::format("{}{} {}", word, numbers.size() == 1 ? "" : "s", render_cpu_list(numbers));
}

}  // namespace

std::string describe(const Binding& binding) {
  std::string text = binding.cpus.empty() ? "" : numbered("CPU", binding.cpus);
  if (binding.policy == MemoryPolicy::untouched) return text;
  const char* how = binding.policy == MemoryPolicy::bind ? "bound to" : "preferred on";
  return fmt::format("{}{}memory {} {}", text, text.empty() ? "" : ", ", how,
                     numbered("node", binding.memory_nodes));
}

}  // namespace ddprun::facts
