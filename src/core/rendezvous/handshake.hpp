// Proof of two agents to each other that they belong to the same launch, before anything else is parsed.
//
//   member       -> hello {magic, protocol version, methods, public key}                  44 bytes
//   coordinator  -> hello                                                                 44 bytes
//   member       -> proof {kind, method, length, sealed}     or refusal {kind, 0, length, sentence}
//   coordinator  -> proof                                    or refusal
//   then what is said, sealed (net/sealed_stream.hpp), both ways
//
// The member speaks first, so that a listener can tell a stranger by its first bytes and say nothing to it.
// What a proof seals is: both hellos as they were sent (so neither keys nor methods can be swapped), the
// sender's role (so a proof cannot be sent back to its maker) and the launch key, in that order. Only who
// holds the key can open it, so a stranger does not learn the job's name. A sealed proof of an earlier
// conversation opens, but carries other public keys.
//
// The public keys (X25519) are made for this conversation alone and serve as nonces. From both follow the
// keys that seal what is said afterwards: who passes a handshake on between two peers learns nothing and
// changes nothing, and who gets the launch's secret later cannot read what was recorded.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::rendezvous {

inline constexpr std::uint8_t k_protocol_version = 2;
inline constexpr std::string_view k_protocol_magic{"ddprun\0", 7};  // the version byte follows
inline constexpr std::size_t k_hello_size = 8 + 4 + 32;
inline constexpr std::size_t k_max_proof = 8192;      // a munge credential of our payload is under 1 KiB
inline constexpr std::size_t k_max_refusal = 512;     // a sentence
inline constexpr std::size_t k_max_launch_key = 512;  // longer keys are cut, on both sides alike

// Methods of proof, each a bit on the wire. pmi_secret, open_mpi and pbs_cookie are keys that a launcher or
// scheduler gave to all processes of one job.
enum class ProofMethod : std::uint8_t {
  munge = 1,
  key_file = 2,
  front_end = 3,  // key of the ddprun that started this one
  pmi_secret = 4,
  open_mpi = 5,
  pbs_cookie = 6,
  given = 7  // DDPRUN_SECRET: the user's word
};
// Methods in order of preference.
inline constexpr std::array<ProofMethod, 7> k_proof_methods{
    ProofMethod::front_end, ProofMethod::given,      ProofMethod::munge,   ProofMethod::pmi_secret,
    ProofMethod::open_mpi,  ProofMethod::pbs_cookie, ProofMethod::key_file};
std::string to_string(ProofMethod method);  // "munge", "a key file", "PMI_SHARED_SECRET"

struct ProofResult {
  bool ok = false;
  std::string text;  // the bytes; or a sentence saying why there are none
};

// Seals and opens proofs. open(seal(x)) == x for everyone who holds the same key (or is the same user, for
// munge); without it no text can be made that opens. Calls may block for as long as the munge daemon needs;
// they have a deadline of their own.
struct Authenticator {
  std::vector<ProofMethod> methods;  // usable here, best first
  std::function<ProofResult(ProofMethod, const std::string& payload)> seal;
  std::function<ProofResult(ProofMethod, const std::string& sealed)> open;
};

using PublicKey = std::array<std::uint8_t, 32>;
enum class HandshakeRole : std::uint8_t { member = 1, coordinator = 2 };

// Keys of a session, one for each direction.
struct SessionKeys {
  SecretKey receive{};
  SecretKey send{};
};

// This side's half of a key exchange, for one conversation.
struct KeyExchange {
  PublicKey public_key{};
  // Returns nullopt if the peer's is no key.
  std::function<std::optional<SessionKeys>(HandshakeRole own, const PublicKey& peer)> derive;
};

struct HandshakeStep {
  enum class State { more, done, failed, foreign };
  State state = State::more;
  std::string send;  // to be sent before anything else is done, also before closing
  std::string
      text;  // failed: why, one sentence; foreign: all bytes received; done: bytes after the handshake
};

// A conversation. Feed it what arrives, in any pieces, until a step is not `more`.
class Handshake {
 public:
  // Begins a handshake; `key_exchange` is used once.
  Handshake(HandshakeRole role, const std::string& launch_key, KeyExchange key_exchange,
            Authenticator authenticator);

  std::string start() const;  // bytes to send at once; none for the coordinator
  HandshakeStep feed(std::string_view bytes);
  // Names what the conversation is waiting for, for the sentence of a deadline: "sent nothing".
  std::string waiting_for() const;
  ProofMethod method() const { return method_; }     // the one that was used, once done
  const SessionKeys& keys() const { return keys_; }  // once done
  bool heard_nothing() const { return stage_ == Stage::hello && buffer_.empty(); }

 private:
  enum class Stage { hello, proof, over };

  HandshakeStep read_hello();
  HandshakeStep read_proof();
  HandshakeStep check_hello();
  HandshakeStep check_proof(ProofMethod method, const std::string& sealed);
  HandshakeStep make_proof();
  HandshakeStep fail(std::string why, bool tell_peer, std::string before = {});
  std::string payload(HandshakeRole sender) const;

  HandshakeRole role_;
  std::string launch_key_;
  KeyExchange key_exchange_;
  Authenticator authenticator_;
  Stage stage_ = Stage::hello;
  std::string own_hello_;
  std::string peer_hello_;
  std::string buffer_;
  std::vector<ProofMethod> common_;
  ProofMethod method_ = ProofMethod::munge;
  SessionKeys keys_;
};

// The key that both sides of a handshake have to prove, and why two of them differ, in words.

// Appends the command itself, without secrets, to a key that has its digest (plan::k_command_mark): an agent
// that runs another one is told which.
std::string with_command(const std::string& launch_key, const std::vector<std::string>& command);

// Describes the difference of two keys from with_command() that are not equal.
std::string describe_other_launch(std::string_view own, std::string_view other);

}  // namespace ddprun::rendezvous
