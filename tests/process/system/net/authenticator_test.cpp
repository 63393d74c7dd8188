#include "net/authentication.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::net;

namespace {

SecretKey key_of(std::uint8_t byte) {
  SecretKey key;
  key.fill(byte);
  return key;
}

}  // namespace

TEST_CASE("what one holder of the key seals, another opens, and nobody reads it on the way") {
  const rendezvous::Authenticator one = make_key_authenticator(key_of(1));
  const rendezvous::Authenticator other = make_key_authenticator(key_of(1));
  const rendezvous::ProofResult sealed = one.seal(rendezvous::ProofMethod::key_file, "slurm/29/0/0");
  REQUIRE(sealed.ok);
  CHECK(sealed.text.find("slurm") == std::string::npos);
  const rendezvous::ProofResult opened = other.open(rendezvous::ProofMethod::key_file, sealed.text);
  CHECK(opened.ok);
  CHECK(opened.text == "slurm/29/0/0");
}

TEST_CASE("another key, a changed byte and a short proof do not open") {
  const rendezvous::Authenticator one = make_key_authenticator(key_of(1));
  const std::string sealed = one.seal(rendezvous::ProofMethod::key_file, "payload").text;
  const std::string sentence = "the peer does not hold the key of this side's key file";
  CHECK(make_key_authenticator(key_of(2)).open(rendezvous::ProofMethod::key_file, sealed).text == sentence);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(one.open(rendezvous::ProofMethod::key_file, changed).ok);
  }
  CHECK(one.open(rendezvous::ProofMethod::key_file, sealed.substr(0, 20)).text == sentence);
  CHECK(one.open(rendezvous::ProofMethod::key_file, "").text == sentence);
}

TEST_CASE("joined authenticators keep their own methods, the first one's come first") {
  rendezvous::Authenticator munge;
  munge.methods = {rendezvous::ProofMethod::munge};
  munge.seal = [](rendezvous::ProofMethod, const std::string&) {
    return rendezvous::ProofResult{true, "MUNGE:"};
  };
  munge.open = [](rendezvous::ProofMethod, const std::string&) {
    return rendezvous::ProofResult{false, "expired"};
  };
  const rendezvous::Authenticator both = join_authenticators(munge, make_key_authenticator(key_of(1)));
  CHECK(both.methods == std::vector<rendezvous::ProofMethod>{rendezvous::ProofMethod::munge,
                                                             rendezvous::ProofMethod::key_file});
  CHECK(both.seal(rendezvous::ProofMethod::munge, "x").text == "MUNGE:");
  CHECK(both.open(rendezvous::ProofMethod::munge, "x").text == "expired");
  CHECK(both.open(rendezvous::ProofMethod::key_file, both.seal(rendezvous::ProofMethod::key_file, "x").text)
            .text == "x");
}

TEST_CASE("a job's secret is a key, another one for every kind of secret") {
  CHECK(derive_key(rendezvous::ProofMethod::pmi_secret, "s") ==
        derive_key(rendezvous::ProofMethod::pmi_secret, "s"));
  CHECK(derive_key(rendezvous::ProofMethod::pmi_secret, "s") !=
        derive_key(rendezvous::ProofMethod::pmi_secret, "t"));
  CHECK(derive_key(rendezvous::ProofMethod::pmi_secret, "s") !=
        derive_key(rendezvous::ProofMethod::open_mpi, "s"));
  const auto authenticator_of = [](rendezvous::ProofMethod method, const char* secret) {
    return make_key_authenticator(derive_key(method, secret), method);
  };
  const std::string sealed = authenticator_of(rendezvous::ProofMethod::pmi_secret, "s")
                                 .seal(rendezvous::ProofMethod::pmi_secret, "x")
                                 .text;
  CHECK(authenticator_of(rendezvous::ProofMethod::pmi_secret, "s")
            .open(rendezvous::ProofMethod::pmi_secret, sealed)
            .text == "x");
  CHECK(authenticator_of(rendezvous::ProofMethod::pmi_secret, "t")
            .open(rendezvous::ProofMethod::pmi_secret, sealed)
            .text == "the peer does not hold PMI_SHARED_SECRET of this job");
}

TEST_CASE("a key exchange is not used twice") {
  CHECK(make_random_key() != make_random_key());
  CHECK(make_key_exchange().public_key != make_key_exchange().public_key);
}

TEST_CASE("both sides of a key exchange have the same keys, and no third one") {
  const rendezvous::KeyExchange member = make_key_exchange();
  const rendezvous::KeyExchange coordinator = make_key_exchange();
  const auto one = member.derive(rendezvous::HandshakeRole::member, coordinator.public_key);
  const auto other = coordinator.derive(rendezvous::HandshakeRole::coordinator, member.public_key);
  REQUIRE((one && other));
  CHECK(one->send == other->receive);
  CHECK(one->receive == other->send);
  const auto third = make_key_exchange().derive(rendezvous::HandshakeRole::coordinator, member.public_key);
  CHECK(third->receive != one->send);
  CHECK_FALSE(member.derive(rendezvous::HandshakeRole::member, rendezvous::PublicKey{}));
}
