#include "rendezvous/handshake.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using State = HandshakeStep::State;

namespace {

// Sealed is "<key>|<payload>": opens only under the same key. The real one is tested with sockets.
Authenticator authenticator_with(const std::string& key,
                                 std::vector<ProofMethod> methods = {ProofMethod::key_file}) {
  Authenticator authenticator;
  authenticator.methods = std::move(methods);
  authenticator.seal = [key](ProofMethod, const std::string& payload) {
    return ProofResult{true, key + "|" + payload};
  };
  authenticator.open = [key](ProofMethod, const std::string& sealed) {
    if (!sealed.starts_with(key + "|")) return ProofResult{false, "the keys differ"};
    return ProofResult{true, sealed.substr(key.size() + 1)};
  };
  return authenticator;
}

// What a side sends with is what the other receives with, as long as both saw the same keys.
KeyExchange key_exchange(std::uint8_t byte) {
  KeyExchange key_exchange;
  key_exchange.public_key.fill(byte);
  key_exchange.derive = [byte](HandshakeRole, const PublicKey& peer) -> std::optional<SessionKeys> {
    if (peer[0] == 0) return std::nullopt;
    SessionKeys keys;
    keys.receive.fill(static_cast<std::uint8_t>(16 * peer[0] + byte));
    keys.send.fill(static_cast<std::uint8_t>(16 * byte + peer[0]));
    return keys;
  };
  return key_exchange;
}

Handshake member(const Authenticator& authenticator = authenticator_with("k"),
                 const std::string& job = "slurm/29/0/0") {
  return {HandshakeRole::member, job, key_exchange(1), authenticator};
}
Handshake coordinator(const Authenticator& authenticator = authenticator_with("k"),
                      const std::string& job = "slurm/29/0/0", std::uint8_t seed = 2) {
  return {HandshakeRole::coordinator, job, key_exchange(seed), authenticator};
}

struct Talk {
  HandshakeStep member;
  HandshakeStep coordinator;
  std::string member_bytes;  // all it sent
};

// Carries bytes between the two, `piece` at a time, until both are done or one has failed and said so.
Talk talk(Handshake a, Handshake b, std::size_t piece = 100000) {
  Talk result;
  std::string to_coordinator = a.start();
  std::string to_member;
  while (!to_coordinator.empty() || !to_member.empty()) {
    const bool up = !to_coordinator.empty();
    std::string& from = up ? to_coordinator : to_member;
    HandshakeStep& step = up ? result.coordinator : result.member;
    const std::string bytes = from.substr(0, piece);
    from.erase(0, bytes.size());
    if (up) result.member_bytes += bytes;
    if (step.state != State::more) continue;  // closed
    step = up ? b.feed(bytes) : a.feed(bytes);
    (up ? to_member : to_coordinator) += step.send;
  }
  return result;
}

}  // namespace

TEST_CASE("two agents of one launch find each other, however the bytes are cut") {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{43}, std::size_t{100000}}) {
    CAPTURE(piece);
    const Talk result = talk(member(), coordinator(), piece);
    CHECK(result.member.state == State::done);
    CHECK(result.coordinator.state == State::done);
  }
}

TEST_CASE("bytes after the handshake are handed on") {
  Handshake a = member();
  Handshake b = coordinator();
  const HandshakeStep greeting = b.feed(a.start());
  const HandshakeStep proof = a.feed(greeting.send);
  const HandshakeStep done = b.feed(proof.send + "frame");
  CHECK(done.state == State::done);
  CHECK(done.text == "frame");
  CHECK(a.feed(done.send + "other").text == "other");
}

TEST_CASE("both sides have the same keys, one for each direction") {
  Handshake a = member();
  Handshake b = coordinator();
  const HandshakeStep proof = a.feed(b.feed(a.start()).send);
  REQUIRE(a.feed(b.feed(proof.send).send).state == State::done);
  CHECK(a.keys().send == b.keys().receive);
  CHECK(a.keys().receive == b.keys().send);
  CHECK(a.keys().send != a.keys().receive);
}

TEST_CASE("a public key that is none is refused, and the peer learns why") {
  const Talk result =
      talk({HandshakeRole::member, "slurm/29/0/0", key_exchange(0), authenticator_with("k")}, coordinator());
  CHECK(result.coordinator.text == "the peer's public key is invalid");
  CHECK(result.member.text == "the peer refused: the peer's public key is invalid");
}

TEST_CASE("the launch key is not said in the clear before the peer has proved itself") {
  const Authenticator other = authenticator_with("other");
  Handshake b = coordinator();
  const std::string greeting = b.feed(member(other).start()).send;
  CHECK(greeting.size() == k_hello_size);
  CHECK(greeting.find("slurm") == std::string::npos);
}

TEST_CASE("another key is refused, and the member learns why") {
  const Talk result = talk(member(authenticator_with("other")), coordinator());
  CHECK(result.coordinator.state == State::failed);
  CHECK(result.coordinator.text == "the keys differ");
  CHECK(result.member.text == "the peer refused: the keys differ");
}

TEST_CASE("another job of the same user is named to both") {
  const Talk result = talk(member(authenticator_with("k"), "slurm/31/0/0"), coordinator());
  CHECK(result.coordinator.text == "this is job slurm/29/0/0, the peer belongs to slurm/31/0/0");
  CHECK(result.member.text == "the peer refused: this is job slurm/29/0/0, the peer belongs to slurm/31/0/0");
}

TEST_CASE("another launch of the same job is told by its command line") {
  const std::string sentence =
      "the commands differ: train.py --lr 1 on this side, train.py --lr 2 on the peer's (to train together "
      "nevertheless, add the same --rdzv-id on all hosts)";
  const Talk result = talk(
      member(authenticator_with("k"), with_command("pbs/7/0/-/command-2b", {"train.py", "--lr", "2"})),
      coordinator(authenticator_with("k"), with_command("pbs/7/0/-/command-1a", {"train.py", "--lr", "1"})));
  CHECK(result.coordinator.text == sentence);
  CHECK(result.member.text == "the peer refused: " + sentence);
}

TEST_CASE("the reason why two keys differ is in the user's words") {
  CHECK(describe_other_launch("manual/morning", "manual/none/command-1a\ntrain.py") ==
        "this side has --rdzv-id morning, the peer no --rdzv-id");
  CHECK(describe_other_launch("pbs/7/0/-/command-1a\ntrain.py", "pbs/7/0/-/command-2b\ntrain.py") ==
        "both run train.py, but with other arguments or in another folder (to train together nevertheless, "
        "add the same --rdzv-id on all hosts)");
  const std::string folder(120, 'a');
  CHECK(describe_other_launch("manual/none/command-1a\ntrain.py " + folder + " --lr 10",
                              "manual/none/command-2b\ntrain.py " + folder + " --lr 1")
            .starts_with("the commands differ: ... 10 on this side, ... 1 on the peer's ("));
  CHECK(with_command("slurm/29/0/0", {"train.py"}) == "slurm/29/0/0");
  CHECK(with_command("manual/none/command-1a", {"train.py", "--hf-token", "abc"}).find("abc") ==
        std::string::npos);
}

TEST_CASE("another protocol version is said on both sides") {
  Handshake b = coordinator();
  std::string hello = member().start();
  hello[7] = 9;
  const HandshakeStep step = b.feed(hello);
  CHECK(step.state == State::failed);
  CHECK(step.text ==
        "the peer uses protocol version 9 and this ddprun version 2; install the same ddprun on all nodes");
  CHECK(step.send.size() == k_hello_size);  // the peer can tell the same from it
}

TEST_CASE("a stranger gets nothing, and its bytes are handed on") {
  Handshake b = coordinator();
  const HandshakeStep step = b.feed("GET / HTTP/1.1\r\n");
  CHECK(step.state == State::foreign);
  CHECK(step.send.empty());
  CHECK(step.text == "GET / HTTP/1.1\r\n");
  // A c10d client starts with a byte of its own.
  CHECK(coordinator().feed(std::string("\x00", 1)).state == State::foreign);
}

TEST_CASE("a stranger that answers is shown by its first bytes") {
  Handshake a = member();
  const HandshakeStep step = a.feed("SSH-2.0-OpenSSH_9.2p1\r\n");
  CHECK(step.state == State::failed);
  CHECK(step.text == "another program answers there (its first bytes: SSH-2.0-OpenSSH_)");
}

TEST_CASE("a proof of an earlier conversation is a replay") {
  const std::string recorded = talk(member(), coordinator()).member_bytes;
  Handshake again = coordinator(authenticator_with("k"), "slurm/29/0/0", 3);  // a new nonce
  const HandshakeStep step = again.feed(recorded);
  CHECK(step.state == State::failed);
  CHECK(step.text == "the peer's proof belongs to another connection (replayed)");
}

TEST_CASE("a member's own proof cannot be sent back to it") {
  Handshake a = member();
  Handshake b = coordinator();
  const std::string greeting = b.feed(a.start()).send;
  const std::string own_proof = a.feed(greeting).send;
  CHECK(a.feed(own_proof).text == "the peer sent our own kind of proof back (reflected)");
}

TEST_CASE("a proof made for something else does not count") {
  Authenticator elsewhere = authenticator_with("k");
  elsewhere.seal = [](ProofMethod, const std::string&) { return ProofResult{true, "k|hello"}; };
  CHECK(talk(member(elsewhere), coordinator()).coordinator.text ==
        "the peer's proof was not made for a ddprun handshake");
}

TEST_CASE("methods: the best common one, or a sentence") {
  const Authenticator both = authenticator_with("k", {ProofMethod::munge, ProofMethod::key_file});
  CHECK(talk(member(both), coordinator()).member.state == State::done);
  CHECK(talk(member(both), coordinator(both)).member_bytes[k_hello_size + 1] ==
        static_cast<char>(ProofMethod::munge));

  const Talk none = talk(member(authenticator_with("k", {ProofMethod::munge})), coordinator());
  CHECK(none.coordinator.text == "no common authentication method: this side has a key file, the peer munge");
  CHECK(none.member.text == "no common authentication method: this side has munge, the peer a key file");
  CHECK(talk(member(authenticator_with("k", {ProofMethod::given})), coordinator()).member.text ==
        "no common authentication method: this side has DDPRUN_SECRET, the peer a key file; set "
        "DDPRUN_SECRET to "
        "the same value on every node");
}

TEST_CASE("a key of the job is preferred to the key file, the front end's and munge to both") {
  const auto& all = k_proof_methods;
  for (auto best = all.begin(); best != all.end(); ++best) {
    const Authenticator ours = authenticator_with("k", {best, all.end()});
    const Authenticator theirs = authenticator_with("k", {all.begin(), all.end()});
    const Talk both = talk(member(ours), coordinator(theirs));
    CHECK(both.member.state == State::done);
    CHECK(both.member_bytes[k_hello_size + 1] == static_cast<char>(*best));
  }
  const Authenticator with_cookie = authenticator_with("k", {ProofMethod::open_mpi, ProofMethod::pbs_cookie});
  CHECK(
      talk(member(authenticator_with("k", {ProofMethod::open_mpi})), coordinator(with_cookie)).member.state ==
      State::done);
  CHECK(
      talk(member(with_cookie), coordinator(authenticator_with("k", {ProofMethod::front_end}))).member.text ==
      "no common authentication method: this side has Open MPI's launch key and PBS_JOBCOOKIE, the peer the "
      "front end's key");
}

TEST_CASE("a member whose munge does not answer uses the key file") {
  Authenticator half = authenticator_with("k", {ProofMethod::munge, ProofMethod::key_file});
  const auto seal = half.seal;
  half.seal = [seal](ProofMethod method, const std::string& payload) {
    if (method == ProofMethod::munge) return ProofResult{false, "the munge daemon does not answer"};
    return seal(method, payload);
  };
  const Authenticator both = authenticator_with("k", {ProofMethod::munge, ProofMethod::key_file});
  CHECK(talk(member(half), coordinator(both)).member.state == State::done);
}

TEST_CASE("an authenticator that cannot seal says so to both") {
  Authenticator mute = authenticator_with("k");
  mute.seal = [](ProofMethod, const std::string&) { return ProofResult{false, "the key file is gone"}; };
  CHECK(talk(member(), coordinator(mute)).member.text == "the peer refused: the key file is gone");
  CHECK(talk(member(mute), coordinator()).coordinator.text == "the peer refused: the key file is gone");
}

TEST_CASE("a proof has a limit") {
  Handshake b = coordinator();
  b.feed(member().start());
  CHECK(b.feed(std::string("\x01\x02\xff\xff", 4)).text == "the peer's proof of 65535 bytes is too long");
}

TEST_CASE("a way of proof that was not offered and noise are refused") {
  Handshake b = coordinator();
  b.feed(member().start());
  CHECK(b.feed(std::string("\x01\x01\x00\x01x", 5)).text ==
        "the peer used an authentication method that was not offered");
  Handshake c = coordinator();
  c.feed(member().start());
  CHECK(c.feed("noise").text == "the peer sent something other than a proof after its greeting");
}

TEST_CASE("a silent peer is described by how far it came") {
  Handshake b = coordinator();
  CHECK(b.waiting_for() == "it sent nothing");
  b.feed("ddpr");
  CHECK(b.waiting_for() == "it stopped inside its greeting");
  Handshake c = coordinator();
  c.feed(member().start());
  CHECK(c.waiting_for() == "it greeted but sent no proof");
}
