// A peer that says anything, heard by either side; the first byte chooses the side. The authenticator opens
// everything, so that what lies inside a proof is reached too.
#include "promise.hpp"
#include "rendezvous/handshake.hpp"

using namespace ddprun;
using State = rendezvous::HandshakeStep::State;

namespace {

struct Heard {
  State state = State::more;
  std::string sent;
};

Heard listen(rendezvous::HandshakeRole role, std::string_view bytes, std::size_t piece) {
  rendezvous::Authenticator authenticator;
  authenticator.methods = {rendezvous::ProofMethod::munge, rendezvous::ProofMethod::key_file};
  authenticator.seal = [](rendezvous::ProofMethod, const std::string& payload) {
    return rendezvous::ProofResult{true, payload};
  };
  authenticator.open = authenticator.seal;
  rendezvous::KeyExchange key_exchange;
  key_exchange.public_key.fill(role == rendezvous::HandshakeRole::member ? 1 : 2);
  key_exchange.derive = [](rendezvous::HandshakeRole, const rendezvous::PublicKey&) {
    return rendezvous::SessionKeys{};
  };
  rendezvous::Handshake handshake(role, "slurm/29/0/0", key_exchange, authenticator);
  Heard heard;
  for (; !bytes.empty() && heard.state == State::more; bytes.remove_prefix(std::min(piece, bytes.size()))) {
    rendezvous::HandshakeStep step = handshake.feed(bytes.substr(0, piece));
    heard.state = step.state;
    heard.sent += step.send;
    if (step.state != State::failed) continue;
    fuzz::require(!step.text.empty());
    fuzz::require_printable(step.text);
  }
  return heard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const rendezvous::HandshakeRole role =
      data[0] % 2 == 0 ? rendezvous::HandshakeRole::coordinator : rendezvous::HandshakeRole::member;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Heard whole = listen(role, bytes, bytes.size() + 1);
  const Heard pieces = listen(role, bytes, 1);
  fuzz::require(whole.state == pieces.state && whole.sent == pieces.sent);
  return 0;
}
