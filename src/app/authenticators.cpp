#include "authenticators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/net/authenticator.hpp"
#include "ddprun/os/key_file.hpp"
#include "ddprun/os/libraries/munge.hpp"
#include "log.hpp"

namespace ddprun {

namespace {

Authenticator make_munge_authenticator(std::int64_t own_uid) {
  auto munge = std::make_shared<Munge>();
  Authenticator authenticator;
  authenticator.methods = {ProofMethod::munge};
  authenticator.seal = [munge](ProofMethod, const std::string& payload) -> ProofResult {
    MungeEncoded encoded = munge->encode(payload);
    if (!encoded.credential) return {false, std::move(encoded.problem)};
    return {true, std::move(*encoded.credential)};
  };
  authenticator.open = [munge, own_uid](ProofMethod, const std::string& sealed) -> ProofResult {
    MungeDecoded decoded = munge->decode(sealed);
    if (!decoded.payload) return {false, std::move(decoded.problem)};
    if (decoded.uid != own_uid)
      return {false, fmt::format("it runs as user {}, not as {}", decoded.uid, own_uid)};
    return {true, std::move(*decoded.payload)};
  };
  return authenticator;
}

ProofMethod method_of(SecretKind kind) {
  switch (kind) {
    case SecretKind::front_end:
      return ProofMethod::front_end;
    case SecretKind::pmi_shared_secret:
      return ProofMethod::pmi_secret;
    case SecretKind::open_mpi_transports:
      return ProofMethod::open_mpi;
    case SecretKind::pbs_cookie:
      return ProofMethod::pbs_cookie;
  }
  return ProofMethod::key_file;
}

// PBS gives its cookie to the processes it starts, and ssh does not carry it on: with it alone another agent
// may still need the key file.
bool every_agent_has(SecretKind kind) { return kind != SecretKind::pbs_cookie; }

std::string key_path(const Options& options, const Snapshot& snapshot) {
  return default_key_path(options.key_file, find_variable(snapshot, "HOME").value_or(""));
}

// What makes the key files of two hosts the same. A stranger is told it too, so it names no path but the
// usual one, as scp wants it on both sides.
std::string copy_hint(const Options& options, const Snapshot& snapshot) {
  const PlaceOptions& place = options.place;
  const auto& address = place.address ? place.address : place.likely_address;
  const std::string host = address ? address->value : snapshot.host.name;
  const std::string path = key_path(options, snapshot);
  const std::string home = find_variable(snapshot, "HOME").value_or("") + "/";
  if (!options.key_file.empty() || home.size() == 1 || !path.starts_with(home))
    return "copy the file that --key-file names from one to the other";
  const std::string below = path.substr(home.size());
  return fmt::format("on the refused host: scp {} ~/{}", shell_quote(fmt::format("{}:{}", host, below)),
                     shell_quote(below));
}

Authenticator make_key_file_authenticator(const SecretKey& key, const Options& options,
                                          const Snapshot& snapshot) {
  Authenticator authenticator = make_key_authenticator(key);
  authenticator.open = [open = authenticator.open, hint = copy_hint(options, snapshot)](
                           ProofMethod method, const std::string& sealed) {
    ProofResult opened = open(method, sealed);
    if (!opened.ok) opened.text = "the key files of the two hosts differ; " + hint;
    return opened;
  };
  return authenticator;
}

// PBS makes its cookie by random(): from those of own jobs the next ones of others can be computed.
void leave_out_predictable(Authenticator& authenticator) {
  if (authenticator.methods.size() > 1) std::erase(authenticator.methods, ProofMethod::pbs_cookie);
}

Authenticator best_first(Authenticator authenticator) {
  const auto place = [](ProofMethod method) {
    return std::find(k_proof_methods.begin(), k_proof_methods.end(), method);
  };
  std::sort(authenticator.methods.begin(), authenticator.methods.end(),
            [&](ProofMethod one, ProofMethod other) { return place(one) < place(other); });
  return authenticator;
}

}  // namespace

Authenticator make_authenticator(const Options& options, const std::vector<JobSecret>& secrets,
                                 const Snapshot& snapshot) {
  if (!options.key_file.empty())
    return make_key_file_authenticator(read_or_make_key_file(key_path(options, snapshot)), options, snapshot);
  std::optional<Authenticator> authenticator;
  const auto add = [&authenticator](Authenticator other) {
    authenticator =
        authenticator ? join_authenticators(std::move(*authenticator), std::move(other)) : std::move(other);
  };
  bool all_have_one = false;
  if (snapshot.host.munge) add(make_munge_authenticator(snapshot.host.uid));
  for (const JobSecret& secret : secrets) {
    const ProofMethod method = method_of(secret.kind);
    add(make_key_authenticator(derive_key(method, secret.value), method));
    all_have_one = all_have_one || every_agent_has(secret.kind);
  }
  try {
    const std::string path = key_path(options, snapshot);
    const SecretKey key = all_have_one ? read_key_file(path) : read_or_make_key_file(path);
    add(make_key_file_authenticator(key, options, snapshot));
  } catch (const Error& error) {
    if (!authenticator) throw;
    if (!all_have_one) say_detail(fmt::format("continuing without a key file: {}", error.what()));
  }
  leave_out_predictable(*authenticator);
  if (authenticator->methods.front() == ProofMethod::pbs_cookie) {
    say_notice(
        fmt::format("ddprun on {} authenticates with PBS_JOBCOOKIE alone, which other users can compute",
                    snapshot.host.name),
        "name a key file that all hosts of the job can read with --key-file");
  }
  return best_first(std::move(*authenticator));
}

}  // namespace ddprun
