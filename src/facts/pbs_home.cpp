#include "ddprun/facts/pbs_home.hpp"

#include "ddprun/base/text.hpp"

namespace ddprun::facts {

namespace {

constexpr std::string_view k_home = "PBS_HOME=";

std::string value_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

}  // namespace

std::string find_pbs_configuration(const Environment& environment) {
  const bool told =
      !value_of(environment, "PBS_NODEFILE").empty() || !value_of(environment, "PBS_HOME").empty();
  if (told || value_of(environment, "PBS_JOBID").empty()) return {};
  const std::string named = value_of(environment, "PBS_CONF_FILE");
  return named.empty() ? "/etc/pbs.conf" : named;
}

Environment with_pbs_home(Environment environment, const std::string& configuration) {
  if (!value_of(environment, "PBS_HOME").empty()) return environment;
  for (const std::string& line : split(configuration, '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with(k_home)) environment["PBS_HOME"] = trim(text.substr(k_home.size()));
  }
  return environment;
}

}  // namespace ddprun::facts
