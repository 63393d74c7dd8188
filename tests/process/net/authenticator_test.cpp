#include "ddprun/net/authenticator.hpp"

#include "catch.hpp"

using namespace ddprun;

namespace {

SecretKey key_of(std::uint8_t byte) {
  SecretKey key;
  key.fill(byte);
  return key;
}

}  // namespace

TEST_CASE("what one holder of the key seals, another opens, and nobody reads it on the way") {
  const Authenticator one = make_key_authenticator(key_of(1));
  const Authenticator other = make_key_authenticator(key_of(1));
  const ProofResult sealed = one.seal(ProofMethod::key_file, "slurm/29/0/0");
  REQUIRE(sealed.ok);
  CHECK(sealed.text.find("slurm") == std::string::npos);
  const ProofResult opened = other.open(ProofMethod::key_file, sealed.text);
  CHECK(opened.ok);
  CHECK(opened.text == "slurm/29/0/0");
}

TEST_CASE("another key, a changed byte and a short proof do not open") {
  const Authenticator one = make_key_authenticator(key_of(1));
  const std::string sealed = one.seal(ProofMethod::key_file, "payload").text;
  const std::string sentence = "the peer does not hold the key of this side's key file";
  CHECK(make_key_authenticator(key_of(2)).open(ProofMethod::key_file, sealed).text == sentence);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(one.open(ProofMethod::key_file, changed).ok);
  }
  CHECK(one.open(ProofMethod::key_file, sealed.substr(0, 20)).text == sentence);
  CHECK(one.open(ProofMethod::key_file, "").text == sentence);
}

TEST_CASE("joined authenticators keep their own methods, the first one's come first") {
  Authenticator munge;
  munge.methods = {ProofMethod::munge};
  munge.seal = [](ProofMethod, const std::string&) { return ProofResult{true, "MUNGE:"}; };
  munge.open = [](ProofMethod, const std::string&) { return ProofResult{false, "expired"}; };
  const Authenticator both = join_authenticators(munge, make_key_authenticator(key_of(1)));
  CHECK(both.methods == std::vector<ProofMethod>{ProofMethod::munge, ProofMethod::key_file});
  CHECK(both.seal(ProofMethod::munge, "x").text == "MUNGE:");
  CHECK(both.open(ProofMethod::munge, "x").text == "expired");
  CHECK(both.open(ProofMethod::key_file, both.seal(ProofMethod::key_file, "x").text).text == "x");
}

TEST_CASE("a job's secret is a key, another one for every kind of secret") {
  CHECK(derive_key(ProofMethod::pmi_secret, "s") == derive_key(ProofMethod::pmi_secret, "s"));
  CHECK(derive_key(ProofMethod::pmi_secret, "s") != derive_key(ProofMethod::pmi_secret, "t"));
  CHECK(derive_key(ProofMethod::pmi_secret, "s") != derive_key(ProofMethod::open_mpi, "s"));
  const auto authenticator_of = [](ProofMethod method, const char* secret) {
    return make_key_authenticator(derive_key(method, secret), method);
  };
  const std::string sealed =
      authenticator_of(ProofMethod::pmi_secret, "s").seal(ProofMethod::pmi_secret, "x").text;
  CHECK(authenticator_of(ProofMethod::pmi_secret, "s").open(ProofMethod::pmi_secret, sealed).text == "x");
  CHECK(authenticator_of(ProofMethod::pmi_secret, "t").open(ProofMethod::pmi_secret, sealed).text ==
        "the peer does not hold PMI_SHARED_SECRET of this job");
}

TEST_CASE("a key exchange is not used twice") {
  CHECK(make_random_key() != make_random_key());
  CHECK(make_key_exchange().public_key != make_key_exchange().public_key);
}

TEST_CASE("both sides of a key exchange have the same keys, and no third one") {
  const KeyExchange member = make_key_exchange();
  const KeyExchange coordinator = make_key_exchange();
  const auto one = member.derive(HandshakeRole::member, coordinator.public_key);
  const auto other = coordinator.derive(HandshakeRole::coordinator, member.public_key);
  REQUIRE((one && other));
  CHECK(one->send == other->receive);
  CHECK(one->receive == other->send);
  const auto third = make_key_exchange().derive(HandshakeRole::coordinator, member.public_key);
  CHECK(third->receive != one->send);
  CHECK_FALSE(member.derive(HandshakeRole::member, PublicKey{}));
}
