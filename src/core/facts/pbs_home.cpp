#include "facts/pbs_home.hpp"

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

constexpr std::string_view k_home = "PBS_HOME=";

}  // namespace

std::string find_pbs_configuration(const Environment& environment) {
  const bool told = !variable_or_empty(environment, "PBS_NODEFILE").empty() ||
                    !variable_or_empty(environment, "PBS_HOME").empty();
  if (told || variable_or_empty(environment, "PBS_JOBID").empty()) return {};
  const std::string named = variable_or_empty(environment, "PBS_CONF_FILE");
  return named.empty() ? "/etc/pbs.conf" : named;
}

Environment with_pbs_home(Environment environment, const std::string& configuration) {
  if (!variable_or_empty(environment, "PBS_HOME").empty()) return environment;
  for (const std::string& line : split(configuration, '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with(k_home)) environment["PBS_HOME"] = trim(text.substr(k_home.size()));
  }
  return environment;
}

}  // namespace ddprun::facts
