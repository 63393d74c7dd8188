#include "rendezvous/handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "facts/secrets.hpp"
#include "plan/rendezvous_plan.hpp"

namespace ddprun::rendezvous {

namespace {

using State = HandshakeStep::State;

constexpr std::string_view k_payload_label{"ddprun proof\0\2", 14};
constexpr char k_kind_proof = 1;
constexpr char k_kind_refusal = 2;
constexpr std::size_t k_proof_header = 4;
constexpr std::size_t k_version_offset = k_protocol_magic.size();
constexpr std::size_t k_methods_offset = k_version_offset + 1;

std::string make_hello(const std::vector<ProofMethod>& methods, const PublicKey& key) {
  std::string hello(k_protocol_magic);
  hello.push_back(static_cast<char>(k_protocol_version));
  unsigned bits = 0;
  for (const ProofMethod method : methods) bits |= 1U << static_cast<unsigned>(method);
  hello.append(3, '\0');
  hello.push_back(static_cast<char>(bits));
  hello.append(key.begin(), key.end());
  return hello;
}

PublicKey public_key_of(const std::string& hello) {
  PublicKey key;
  std::copy(hello.end() - static_cast<std::ptrdiff_t>(key.size()), hello.end(), key.begin());
  return key;
}

std::vector<ProofMethod> methods_of(const std::string& hello) {
  const auto bits = static_cast<unsigned char>(hello[k_methods_offset + 3]);
  std::vector<ProofMethod> methods;
  for (const ProofMethod method : k_proof_methods) {
    if ((bits >> static_cast<unsigned>(method) & 1U) != 0) methods.push_back(method);
  }
  return methods;
}

bool has_method(const std::vector<ProofMethod>& methods, ProofMethod method) {
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

std::string describe_methods(const std::vector<ProofMethod>& methods) {
  std::vector<std::string> names;
  for (const ProofMethod method : methods) names.push_back(to_string(method));
  return names.empty() ? "nothing" : join(names, " and ");
}

std::string frame(char kind, char method, std::string_view body) {
  std::string bytes{kind, method};
  bytes.push_back(static_cast<char>(body.size() >> 8 & 0xff));
  bytes.push_back(static_cast<char>(body.size() & 0xff));
  return bytes.append(body);
}

std::string describe_stranger(std::string_view first_bytes) {
  return fmt::format("another program answers there (its first bytes: {})",
                     printable(first_bytes.substr(0, 16)));
}

}  // namespace

std::string to_string(ProofMethod method) {
  constexpr const char* k_names[] = {"",
                                     "munge",
                                     "a key file",
                                     "the front end's key",
                                     "PMI_SHARED_SECRET",
                                     "Open MPI's launch key",
                                     "PBS_JOBCOOKIE",
                                     "DDPRUN_SECRET"};
  return k_names[static_cast<std::size_t>(method)];
}

Handshake::Handshake(HandshakeRole role, const std::string& launch_key, KeyExchange key_exchange,
                     Authenticator authenticator)
    : role_(role),
      launch_key_(launch_key.substr(0, k_max_launch_key)),
      key_exchange_(std::move(key_exchange)),
      authenticator_(std::move(authenticator)),
      own_hello_(make_hello(authenticator_.methods, key_exchange_.public_key)) {}

std::string Handshake::start() const { return role_ == HandshakeRole::member ? own_hello_ : std::string(); }

HandshakeStep Handshake::feed(std::string_view bytes) {
  buffer_ += bytes;
  HandshakeStep step;
  if (stage_ == Stage::hello) step = read_hello();
  if (stage_ != Stage::proof || step.state != State::more) return step;
  HandshakeStep next = read_proof();
  next.send.insert(0, step.send);
  return next;
}

std::string Handshake::waiting_for() const {
  if (stage_ == Stage::hello) return buffer_.empty() ? "it sent nothing" : "it stopped inside its greeting";
  return "it greeted but sent no proof";
}

HandshakeStep Handshake::read_hello() {
  const std::size_t compared = std::min(buffer_.size(), k_protocol_magic.size());
  if (buffer_.compare(0, compared, k_protocol_magic.substr(0, compared)) != 0) {
    stage_ = Stage::over;
    if (role_ == HandshakeRole::member) return {State::failed, {}, describe_stranger(buffer_)};
    return {State::foreign, {}, buffer_};
  }
  if (buffer_.size() <= k_version_offset) return {};
  const auto version = static_cast<std::uint8_t>(buffer_[k_version_offset]);
  if (version != k_protocol_version) {
    // Our greeting tells the peer the same.
    return fail(fmt::format("the peer uses protocol version {} and this ddprun version {}; install the same "
                            "ddprun on all nodes",
                            version, k_protocol_version),
                false, role_ == HandshakeRole::coordinator ? own_hello_ : std::string());
  }
  if (buffer_.size() < k_hello_size) return {};
  peer_hello_ = buffer_.substr(0, k_hello_size);
  buffer_.erase(0, k_hello_size);
  return check_hello();
}

HandshakeStep Handshake::check_hello() {
  const std::vector<ProofMethod> theirs = methods_of(peer_hello_);
  for (const ProofMethod method : authenticator_.methods) {
    if (std::count(theirs.begin(), theirs.end(), method) > 0) common_.push_back(method);
  }
  const bool answers = role_ == HandshakeRole::coordinator;
  std::string send = answers ? own_hello_ : std::string();
  if (common_.empty()) {
    const bool given =
        has_method(authenticator_.methods, ProofMethod::given) || has_method(theirs, ProofMethod::given);
    return fail(fmt::format("no common authentication method: this side has {}, the peer {}{}",
                            describe_methods(authenticator_.methods), describe_methods(theirs),
                            given ? "; set DDPRUN_SECRET to the same value on every node" : ""),
                false, std::move(send));
  }
  stage_ = Stage::proof;
  if (answers) return {State::more, std::move(send), {}};
  for (const ProofMethod method : common_) {
    method_ = method;
    HandshakeStep step = make_proof();
    if (step.state == State::more || method == common_.back()) return step;
    stage_ = Stage::proof;
  }
  return {};
}

HandshakeStep Handshake::read_proof() {
  if (buffer_.size() < k_proof_header) return {};
  const char kind = buffer_[0];
  const auto method = static_cast<ProofMethod>(buffer_[1]);
  const std::size_t length =
      std::size_t{static_cast<unsigned char>(buffer_[2])} << 8 | static_cast<unsigned char>(buffer_[3]);
  if (kind != k_kind_proof && kind != k_kind_refusal) {
    return fail("the peer sent something other than a proof after its greeting", false);
  }
  if (length > (kind == k_kind_proof ? k_max_proof : k_max_refusal)) {
    return fail(fmt::format("the peer's proof of {} bytes is too long", length), true);
  }
  if (buffer_.size() < k_proof_header + length) return {};
  const std::string body = buffer_.substr(k_proof_header, length);
  buffer_.erase(0, k_proof_header + length);
  if (kind == k_kind_refusal) return fail("the peer refused: " + printable(body, k_max_refusal), false);
  if (std::count(common_.begin(), common_.end(), method) == 0 ||
      (role_ == HandshakeRole::member && method != method_)) {
    return fail("the peer used an authentication method that was not offered", true);
  }
  method_ = method;
  return check_proof(method, body);
}

HandshakeStep Handshake::check_proof(ProofMethod method, const std::string& sealed) {
  const HandshakeRole sender =
      role_ == HandshakeRole::member ? HandshakeRole::coordinator : HandshakeRole::member;
  const ProofResult opened = authenticator_.open(method, sealed);
  if (!opened.ok) return fail(opened.text, true);

  const std::string expected = payload(sender);
  const std::size_t fixed = k_payload_label.size() + 2 * k_hello_size + 1;
  const std::string_view got(opened.text);
  if (got.size() < fixed || !got.starts_with(k_payload_label)) {
    return fail("the peer's proof was not made for a ddprun handshake", true);
  }
  const std::size_t role_offset = fixed - 1;
  if (got.substr(0, role_offset) != std::string_view(expected).substr(0, role_offset)) {
    return fail("the peer's proof belongs to another connection (replayed)", true);
  }
  if (got[role_offset] != expected[role_offset]) {
    return fail("the peer sent our own kind of proof back (reflected)", true);
  }
  if (got.substr(fixed) != launch_key_) {
    return fail(describe_other_launch(launch_key_, got.substr(fixed)), true);
  }
  const auto keys = key_exchange_.derive(role_, public_key_of(peer_hello_));
  if (!keys) return fail("the peer's public key is invalid", true);
  keys_ = *keys;
  if (role_ == HandshakeRole::coordinator) {
    HandshakeStep step = make_proof();
    if (step.state == State::failed) return step;
    stage_ = Stage::over;
    return {State::done, std::move(step.send), std::move(buffer_)};
  }
  stage_ = Stage::over;
  return {State::done, {}, std::move(buffer_)};
}

HandshakeStep Handshake::make_proof() {
  const ProofResult sealed = authenticator_.seal(method_, payload(role_));
  if (!sealed.ok) return fail(sealed.text, true);
  if (sealed.text.size() > k_max_proof) {
    return fail(fmt::format("the proof made with {} is too long", to_string(method_)), true);
  }
  return {State::more, frame(k_kind_proof, static_cast<char>(method_), sealed.text), {}};
}

HandshakeStep Handshake::fail(std::string why, bool tell_peer, std::string before) {
  stage_ = Stage::over;
  if (tell_peer) before += frame(k_kind_refusal, 0, std::string_view(why).substr(0, k_max_refusal));
  return {State::failed, std::move(before), std::move(why)};
}

std::string Handshake::payload(HandshakeRole sender) const {
  const bool own_first = role_ == HandshakeRole::member;
  std::string bytes(k_payload_label);
  bytes += own_first ? own_hello_ : peer_hello_;
  bytes += own_first ? peer_hello_ : own_hello_;
  bytes.push_back(static_cast<char>(sender));
  return bytes + launch_key_;
}

namespace {

constexpr char k_separator = '\n';
constexpr std::string_view k_by_hand = "manual/";
constexpr std::size_t k_width = 120;

struct KeyParts {
  std::string_view launch;  // "manual/none"
  bool by_command = false;
  std::string_view command;  // cut with the key
};

KeyParts split_key(std::string_view key) {
  const std::size_t mark = key.find(plan::k_command_mark);
  if (mark == std::string_view::npos) return {key, false, {}};
  const std::size_t command = key.find(k_separator, mark);
  return {key.substr(0, mark), true,
          command == std::string_view::npos ? std::string_view() : key.substr(command + 1)};
}

// Returns the name of a launch for people. One by hand has only that of --rdzv-id, and "none" is torchrun's
// default.
std::string name_of_launch(std::string_view launch) {
  if (!launch.starts_with(k_by_hand)) return "job " + printable(launch);
  const std::string_view id = launch.substr(k_by_hand.size());
  return id == "none" ? "no --rdzv-id" : fmt::format("--rdzv-id {}", printable(id));
}

// Shows two texts that differ; if one is long, from the word on in which they do.
std::pair<std::string, std::string> show_both(std::string_view own, std::string_view other) {
  std::string_view dots;
  if (std::max(own.size(), other.size()) > k_width) {
    const auto differ = std::ranges::mismatch(own, other);
    const auto same = static_cast<std::size_t>(differ.in1 - own.begin());
    const std::size_t word = own.substr(0, same).rfind(' ') + 1;
    dots = word > 0 ? "... " : "";
    own.remove_prefix(word);
    other.remove_prefix(word);
  }
  return {fmt::format("{}{}", dots, printable(own, k_width)),
          fmt::format("{}{}", dots, printable(other, k_width))};
}

}  // namespace

std::string with_command(const std::string& launch_key, const std::vector<std::string>& command) {
  if (launch_key.find(plan::k_command_mark) == std::string::npos) return launch_key;
  return launch_key + k_separator + shell_quote(facts::mask_words(command));
}

std::string describe_other_launch(std::string_view own_key, std::string_view other_key) {
  const KeyParts own = split_key(own_key);
  const KeyParts other = split_key(other_key);
  if (own.launch.starts_with(k_by_hand) && own.launch != other.launch)
    return fmt::format("this side has {}, the peer {}", name_of_launch(own.launch),
                       name_of_launch(other.launch));
  if (own.launch != other.launch || !own.by_command || !other.by_command)
    return fmt::format("this is job {}, the peer belongs to {}", printable(own_key), printable(other_key));
  constexpr const char* k_together = "to train together nevertheless, add the same --rdzv-id on all hosts";
  if (own.command == other.command)
    return fmt::format("both run {}, but with other arguments or in another folder ({})",
                       printable(own.command, k_width), k_together);
  const auto [here, there] = show_both(own.command, other.command);
  return fmt::format("the commands differ: {} on this side, {} on the peer's ({})", here, there, k_together);
}

}  // namespace ddprun::rendezvous
