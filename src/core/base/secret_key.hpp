// A symmetric key: 32 bytes that cannot be guessed.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun {

using SecretKey = std::array<std::uint8_t, 32>;

}  // namespace ddprun
