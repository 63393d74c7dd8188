// A symmetric key: 32 bytes that nobody can guess.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun {

using SecretKey = std::array<std::uint8_t, 32>;

}  // namespace ddprun
