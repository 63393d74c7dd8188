#include "ddprun/app/provers.hpp"

#include <fmt/format.h>

#include <memory>

#include "ddprun/app/log.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/net/key_prover.hpp"
#include "ddprun/os/key_file.hpp"
#include "ddprun/os/munge.hpp"

namespace ddprun {

namespace {

Prover make_munge_prover(std::int64_t own_uid) {
  auto munge = std::make_shared<Munge>();
  Prover prover;
  prover.methods = {ProofMethod::munge};
  prover.seal = [munge](ProofMethod, const std::string& payload) -> ProofResult {
    MungeEncoded encoded = munge->encode(payload);
    if (!encoded.credential) return {false, std::move(encoded.problem)};
    return {true, std::move(*encoded.credential)};
  };
  prover.open = [munge, own_uid](ProofMethod, const std::string& sealed) -> ProofResult {
    MungeDecoded decoded = munge->decode(sealed);
    if (!decoded.payload) return {false, std::move(decoded.problem)};
    if (decoded.uid != own_uid)
      return {false, fmt::format("it runs as user {}, not as {}", decoded.uid, own_uid)};
    return {true, std::move(*decoded.payload)};
  };
  return prover;
}

}  // namespace

Prover make_prover(const Options& options, const Snapshot& snapshot) {
  std::optional<Prover> by_munge;
  if (snapshot.host.munge && options.key_file.empty()) by_munge = make_munge_prover(snapshot.host.uid);
  try {
    const std::string path = default_key_path(options.key_file, find_variable(snapshot, "HOME").value_or(""));
    Prover by_key = make_key_prover(read_or_make_key_file(path));
    return by_munge ? join_provers(std::move(*by_munge), std::move(by_key)) : by_key;
  } catch (const Error& error) {
    if (!by_munge) throw;
    say_detail(fmt::format("no key file beside munge: {}", error.what()));
  }
  return std::move(*by_munge);
}

}  // namespace ddprun
