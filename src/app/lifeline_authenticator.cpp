#include "lifeline_authenticator.hpp"

#include <fmt/format.h>

#include <utility>

#include "authenticators.hpp"
#include "ddprun/allocation/started.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/net/authenticator.hpp"
#include "ddprun/net/secret_text.hpp"
#include "ddprun/os/rendezvous_file.hpp"
#include "log.hpp"

namespace ddprun {

namespace {

// What a front end left for its agents in the file that it named; nothing where this host does not see it.
std::optional<std::string> read_launch_key(const std::vector<std::string>& arguments) {
  if (!is_started_agent(arguments) || arguments.size() < 4) return std::nullopt;
  RendezvousFileLook look = look_at_rendezvous_file(arguments[3]);
  if (!look.text) say_detail(fmt::format("no launch key in {}: {}", arguments[3], look.problem));
  return std::move(look.text);
}

}  // namespace

Authenticator make_lifeline_authenticator(const Snapshot& snapshot, const Options& options) {
  std::optional<std::string> key = find_variable(snapshot, k_front_end_key_variable);
  if (!key) key = read_launch_key(snapshot.arguments);
  const auto authenticator_of = [](const std::string& secret) {
    return make_key_authenticator(derive_key(ProofMethod::front_end, secret), ProofMethod::front_end);
  };
  if (key) return authenticator_of(*key);
  const auto cookie = find_variable(snapshot, "PBS_JOBCOOKIE");
  try {
    return make_authenticator(options, {}, snapshot);
  } catch (const Error&) {
    if (!cookie || cookie->empty()) throw;
    return authenticator_of(make_secret_text_from(*cookie));
  }
}

}  // namespace ddprun
