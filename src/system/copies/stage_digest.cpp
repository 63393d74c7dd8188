#include "copies/stage_digest.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <array>

namespace ddprun::copies {

struct StageDigest::State {
  crypto_generichash_state hash;
};

StageDigest::StageDigest() : state_(std::make_unique<State>()) {
  crypto_generichash_init(&state_->hash, nullptr, 0, crypto_generichash_BYTES);
}

StageDigest::~StageDigest() = default;

void StageDigest::add(std::string_view bytes) {
  crypto_generichash_update(&state_->hash, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

std::string StageDigest::text() {
  std::array<unsigned char, crypto_generichash_BYTES> digest{};
  crypto_generichash_final(&state_->hash, digest.data(), digest.size());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace ddprun::copies
