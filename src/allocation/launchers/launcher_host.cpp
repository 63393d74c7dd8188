#include "allocation/launchers/launcher_host.hpp"

#include "allocation/hostlist.hpp"

namespace ddprun::allocation {

std::optional<std::string> find_prrte_host(std::string_view launch) {
  constexpr std::string_view k_digits = "0123456789";
  const std::size_t at = launch.find('@');
  if (at == std::string_view::npos || !launch.starts_with("prte")) return std::nullopt;
  launch = launch.substr(0, at);
  const std::size_t first = launch.find('-');
  const std::size_t last = launch.rfind('-');
  if (first == std::string_view::npos || last <= first + 1 || last + 1 == launch.size()) return std::nullopt;
  if (launch.find_first_not_of(k_digits, last + 1) != std::string_view::npos) return std::nullopt;
  const std::string_view host = launch.substr(first + 1, last - first - 1);
  return is_host_name(host) ? std::optional<std::string>(host) : std::nullopt;
}

bool is_address_text(std::string_view text) {
  const bool dotted = text.find_first_not_of("0123456789.") == std::string_view::npos;
  const bool colons = text.find(':') != std::string_view::npos &&
                      text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  return !text.empty() && text.size() <= 45 && (dotted || colons);
}

}  // namespace ddprun::allocation
