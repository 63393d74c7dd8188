// Bytes that are not the peer's, in any pieces, where sealed ones are awaited: refused, or not enough yet.
// The low bit of the first byte says whether the peer's own header and first piece come before them, the
// others how they are cut.
#include <sodium.h>

#include "net/sealed_stream.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

constexpr std::string_view k_first = "the first piece";

SecretKey key() {
  SecretKey bytes{};
  bytes.fill(7);
  return bytes;
}

// What a reader says to them in the end; every text but the peer's own is a lie.
bool refuses(bool after_first, std::string_view bytes, std::size_t cut) {
  net::SealedWriter writer(key());
  net::SealedReader reader(key());
  if (after_first) {
    reader.append(writer.seal(k_first));
    const auto first = reader.next();
    require(std::holds_alternative<std::string>(first) && std::get<std::string>(first) == k_first);
  }
  for (; !bytes.empty(); bytes.remove_prefix(std::min(cut, bytes.size()))) {
    reader.append(bytes.substr(0, cut));
    const auto next = reader.next();
    require(!std::holds_alternative<std::string>(next));
    if (!std::holds_alternative<rendezvous::CodecError>(next)) continue;
    fuzz::require_printable(std::get<rendezvous::CodecError>(next).what);
    return true;
  }
  return false;
}

// And what was sealed comes out again, however it is cut.
void check_own(std::string_view bytes, std::size_t cut) {
  net::SealedWriter writer(key());
  net::SealedReader reader(key());
  const std::string half(bytes.substr(0, bytes.size() / 2));
  const std::string sealed = writer.seal(bytes) + writer.seal(half);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < sealed.size(); at += cut) {
    reader.append(std::string_view(sealed).substr(at, cut));
    auto next = reader.next();
    for (; std::holds_alternative<std::string>(next); next = reader.next())
      texts.push_back(std::get<std::string>(next));
    require(std::holds_alternative<std::monostate>(next));
  }
  require(texts == std::vector<std::string>{std::string(bytes), half});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool ready = sodium_init() >= 0;
  require(ready);
  if (size == 0) return 0;
  fuzz::Input input(data, size);
  const int choice = input.byte();
  const bool after_first = choice % 2 == 1;
  const std::size_t cut = static_cast<std::size_t>(choice / 2) + 1;
  const std::string_view bytes = input.rest();
  require(refuses(after_first, bytes, bytes.size() + 1) == refuses(after_first, bytes, cut));
  check_own(bytes, cut);
  return 0;
}
