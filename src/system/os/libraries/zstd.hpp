// Compressing by libzstd, which is loaded where it is installed.
#pragma once

#include <string>

namespace ddprun::os {

inline constexpr const char* k_zstd_library = "libzstd.so.1";

std::string why_no_zstd();  // empty: it can be used

// Appends what can be read of `from` to `to` as one frame with a checksum; both are descriptors. 0, or errno.
int compress_by_zstd(int from, int to);

}  // namespace ddprun::os
