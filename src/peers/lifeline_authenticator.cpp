#include "peers/lifeline_authenticator.hpp"

#include <fmt/format.h>

#include <utility>

#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "console/log.hpp"
#include "net/authenticator.hpp"
#include "net/secret_text.hpp"
#include "os/files/rendezvous_file.hpp"
#include "peers/authenticators.hpp"

namespace ddprun::peers {

namespace {

// What a front end left for its agents in the file that it named; nothing where this host does not see it.
std::optional<std::string> read_launch_key(const std::vector<std::string>& arguments) {
  if (!allocation::is_started_agent(arguments) || arguments.size() < 4) return std::nullopt;
  os::RendezvousFileLook look = os::look_at_rendezvous_file(arguments[3]);
  if (!look.text) console::say_detail(fmt::format("no launch key in {}: {}", arguments[3], look.problem));
  return std::move(look.text);
}

}  // namespace

rendezvous::Authenticator make_lifeline_authenticator(const facts::Snapshot& snapshot,
                                                      const options::Options& options) {
  std::optional<std::string> key = facts::find_variable(snapshot, allocation::k_front_end_key_variable);
  if (!key) key = read_launch_key(snapshot.arguments);
  const auto authenticator_of = [](const std::string& secret) {
    return net::make_key_authenticator(net::derive_key(rendezvous::ProofMethod::front_end, secret),
                                       rendezvous::ProofMethod::front_end);
  };
  if (key) return authenticator_of(*key);
  const auto cookie = facts::find_variable(snapshot, "PBS_JOBCOOKIE");
  try {
    return make_authenticator(options, {}, snapshot);
  } catch (const Error&) {
    if (!cookie || cookie->empty()) throw;
    return authenticator_of(net::make_secret_text_from(*cookie));
  }
}

}  // namespace ddprun::peers
