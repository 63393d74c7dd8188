#include "peers/authenticators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "net/authentication.hpp"
#include "os/files/key_file.hpp"
#include "os/files/rendezvous_file.hpp"
#include "os/libraries/munge.hpp"

namespace ddprun::peers {

namespace {

rendezvous::Authenticator make_munge_authenticator(std::int64_t own_uid) {
  auto munge = std::make_shared<os::Munge>();
  rendezvous::Authenticator authenticator;
  authenticator.methods = {rendezvous::ProofMethod::munge};
  authenticator.seal = [munge](rendezvous::ProofMethod,
                               const std::string& payload) -> rendezvous::ProofResult {
    os::MungeEncoded encoded = munge->encode(payload);
    if (!encoded.credential) return {false, std::move(encoded.problem)};
    return {true, std::move(*encoded.credential)};
  };
  authenticator.open = [munge, own_uid](rendezvous::ProofMethod,
                                        const std::string& sealed) -> rendezvous::ProofResult {
    os::MungeDecoded decoded = munge->decode(sealed);
    if (!decoded.payload) return {false, std::move(decoded.problem)};
    if (decoded.uid != own_uid)
      return {false, fmt::format("it runs as user {}, not as {}", decoded.uid, own_uid)};
    return {true, std::move(*decoded.payload)};
  };
  return authenticator;
}

rendezvous::ProofMethod method_of(allocation::SecretKind kind) {
  switch (kind) {
    case allocation::SecretKind::front_end:
      return rendezvous::ProofMethod::front_end;
    case allocation::SecretKind::given:
      return rendezvous::ProofMethod::given;
    case allocation::SecretKind::pmi_shared_secret:
      return rendezvous::ProofMethod::pmi_secret;
    case allocation::SecretKind::open_mpi_transports:
      return rendezvous::ProofMethod::open_mpi;
    case allocation::SecretKind::pbs_cookie:
      return rendezvous::ProofMethod::pbs_cookie;
  }
  return rendezvous::ProofMethod::key_file;
}

// Reports whether every agent has it. PBS gives its cookie to the processes it starts, and ssh does not carry
// it on: with it alone another agent may still need the key file.
bool every_agent_has(allocation::SecretKind kind) { return kind != allocation::SecretKind::pbs_cookie; }

std::string key_path(const options::Options& options, const facts::Snapshot& snapshot) {
  return os::default_key_path(options.key_file, facts::find_variable(snapshot, "HOME").value_or(""));
}

// Returns a hint how to make the key files of two hosts equal. A stranger is told it too, so it names no path
// but the usual one, as scp wants it on both sides.
std::string copy_hint(const options::Options& options, const facts::Snapshot& snapshot,
                      const std::string& place_name) {
  const bool apart = !place_name.empty() || facts::find_variable(snapshot, "KUBERNETES_SERVICE_HOST");
  if (apart && options.key_file.empty()) {
    return "if the hosts share no home directory, set DDPRUN_SECRET to the same value on every node, or name "
           "a file that all of them can read with --key-file";
  }
  const allocation::PlaceOptions& place = options.place;
  const auto& address = place.address ? place.address : place.likely_address;
  const std::string host = address ? address->value : snapshot.host.name;
  const std::string path = key_path(options, snapshot);
  const std::string home = facts::find_variable(snapshot, "HOME").value_or("") + "/";
  if (!options.key_file.empty() || home.size() == 1 || !path.starts_with(home))
    return "copy the file of --key-file from one host to the other";
  const std::string below = path.substr(home.size());
  return fmt::format("on the refused host: scp {} ~/{}", shell_quote(fmt::format("{}:{}", host, below)),
                     shell_quote(below));
}

rendezvous::Authenticator make_key_file_authenticator(const SecretKey& key, const options::Options& options,
                                                      const facts::Snapshot& snapshot,
                                                      const std::string& place) {
  rendezvous::Authenticator authenticator = net::make_key_authenticator(key);
  authenticator.open = [open = authenticator.open, hint = copy_hint(options, snapshot, place)](
                           rendezvous::ProofMethod method, const std::string& sealed) {
    rendezvous::ProofResult opened = open(method, sealed);
    if (!opened.ok) opened.text = "the key files of the two hosts differ; " + hint;
    return opened;
  };
  return authenticator;
}

// Leaves out PBS' cookie, which PBS makes by random(): from those of own jobs the next ones of others can be
// computed.
void leave_out_predictable(rendezvous::Authenticator& authenticator) {
  if (authenticator.methods.size() > 1)
    std::erase(authenticator.methods, rendezvous::ProofMethod::pbs_cookie);
}

rendezvous::Authenticator best_first(rendezvous::Authenticator authenticator) {
  const auto place = [](rendezvous::ProofMethod method) {
    return std::find(rendezvous::k_proof_methods.begin(), rendezvous::k_proof_methods.end(), method);
  };
  std::sort(
      authenticator.methods.begin(), authenticator.methods.end(),
      [&](rendezvous::ProofMethod one, rendezvous::ProofMethod other) { return place(one) < place(other); });
  return authenticator;
}

// Returns the key that a front end left for its agents in the file that it named; nullopt if this host does
// not see the file.
std::optional<std::string> read_launch_key(const std::vector<std::string>& arguments) {
  if (!allocation::is_started_agent(arguments) || arguments.size() < 4) return std::nullopt;
  os::RendezvousFileLook look = os::look_at_rendezvous_file(arguments[3]);
  if (!look.text) console::say_detail(fmt::format("no launch key in {}: {}", arguments[3], look.problem));
  return std::move(look.text);
}

}  // namespace

rendezvous::Authenticator make_authenticator(const options::Options& options,
                                             const std::vector<allocation::JobSecret>& secrets,
                                             const facts::Snapshot& snapshot, const std::string& place) {
  if (!options.key_file.empty())
    return make_key_file_authenticator(os::read_or_make_key_file(key_path(options, snapshot)), options,
                                       snapshot, place);
  std::optional<rendezvous::Authenticator> authenticator;
  const auto add = [&authenticator](rendezvous::Authenticator other) {
    authenticator = authenticator ? net::join_authenticators(std::move(*authenticator), std::move(other))
                                  : std::move(other);
  };
  bool all_have_one = false;
  if (snapshot.host.munge) add(make_munge_authenticator(snapshot.host.uid));
  for (const allocation::JobSecret& secret : secrets) {
    const rendezvous::ProofMethod method = method_of(secret.kind);
    add(net::make_key_authenticator(net::derive_key(method, secret.value), method));
    all_have_one = all_have_one || every_agent_has(secret.kind);
  }
  try {
    const std::string path = key_path(options, snapshot);
    const SecretKey key = all_have_one ? os::read_key_file(path) : os::read_or_make_key_file(path);
    add(make_key_file_authenticator(key, options, snapshot, place));
  } catch (const Error& error) {
    if (!authenticator) throw;
    if (!all_have_one) console::say_detail(fmt::format("continuing without a key file: {}", error.what()));
  }
  leave_out_predictable(*authenticator);
  if (authenticator->methods.front() == rendezvous::ProofMethod::pbs_cookie) {
    console::say_notice(
        fmt::format("ddprun on {} authenticates with PBS_JOBCOOKIE alone, which other users can compute",
                    snapshot.host.name),
        "name a key file that all hosts of the job can read with --key-file");
  }
  return best_first(std::move(*authenticator));
}

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
