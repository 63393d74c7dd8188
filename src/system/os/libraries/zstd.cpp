#include "os/libraries/zstd.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <vector>

#include "os/descriptors.hpp"
#include "os/libraries/library_function.hpp"

namespace ddprun::os {

namespace {

// The part of zstd.h that is used, stable since 1.4.0.
using Context = void;
enum Parameter { checksum = 201 };  // ZSTD_c_checksumFlag
enum Directive { go_on = 0, end_frame = 2 };
struct Input {
  const void* bytes;
  std::size_t size;
  std::size_t taken;
};
struct Output {
  void* bytes;
  std::size_t size;
  std::size_t filled;
};

struct ZstdLibrary {
  Context* (*create)() = nullptr;
  std::size_t (*destroy)(Context*) = nullptr;
  std::size_t (*set)(Context*, int, int) = nullptr;
  std::size_t (*compress)(Context*, Output*, Input*, int) = nullptr;
  unsigned (*is_error)(std::size_t) = nullptr;

  // Loads the library. Returns an empty string, or the reason of a failure.
  std::string load() {
    void* const library = ::dlopen(k_zstd_library, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fmt::format("cannot be loaded ({})", ::dlerror());
    const bool whole = find_function(library, "ZSTD_createCCtx", create) &&
                       find_function(library, "ZSTD_freeCCtx", destroy) &&
                       find_function(library, "ZSTD_CCtx_setParameter", set) &&
                       find_function(library, "ZSTD_compressStream2", compress) &&
                       find_function(library, "ZSTD_isError", is_error);
    return whole ? std::string() : "is older than 1.4.0";
  }
};

constexpr std::size_t k_portion = std::size_t{1} << 17;

// Reads; returns -1 and errno as read(2).
ssize_t read_some(int from, std::vector<char>& bytes) {
  for (;;) {
    const ssize_t length = ::read(from, bytes.data(), bytes.size());
    if (length >= 0 || errno != EINTR) return length;
  }
}

}  // namespace

std::string why_no_zstd() { return ZstdLibrary().load(); }

int compress_by_zstd(int from, int to) {
  ZstdLibrary zstd;
  if (!zstd.load().empty()) return ELIBACC;
  const std::unique_ptr<Context, std::size_t (*)(Context*)> context(zstd.create(), zstd.destroy);
  if (!context) return ENOMEM;
  zstd.set(context.get(), checksum, 1);
  std::vector<char> plain(k_portion);
  std::vector<char> packed(k_portion);
  for (bool ended = false; !ended;) {
    const ssize_t length = read_some(from, plain);
    if (length < 0) return errno;
    ended = length == 0;
    Input input{plain.data(), static_cast<std::size_t>(length), 0};
    std::size_t left = 0;
    do {
      Output output{packed.data(), packed.size(), 0};
      left = zstd.compress(context.get(), &output, &input, ended ? end_frame : go_on);
      if (zstd.is_error(left) != 0) return EIO;
      if (!write_whole(to, {packed.data(), output.filled})) return errno;
    } while (ended ? left > 0 : input.taken < input.size);
  }
  return 0;
}

}  // namespace ddprun::os
