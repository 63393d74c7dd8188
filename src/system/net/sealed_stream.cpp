#include "net/sealed_stream.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <utility>

namespace ddprun::net {

namespace {

constexpr std::size_t k_header = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t k_overhead = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr std::size_t k_length = 4;

static_assert(std::tuple_size_v<SecretKey> == crypto_secretstream_xchacha20poly1305_KEYBYTES);

void put_length(std::string& bytes, std::size_t size) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(size >> shift & 0xffU));
}

std::size_t read_length(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < k_length; ++i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

}  // namespace

struct SealedWriter::State {
  crypto_secretstream_xchacha20poly1305_state cipher;
  std::string header;  // not sent yet
};

SealedWriter::SealedWriter(const SecretKey& key) : state_(std::make_unique<State>()) {
  state_->header.resize(k_header);
  crypto_secretstream_xchacha20poly1305_init_push(&state_->cipher, bytes_of(state_->header), key.data());
}

SealedWriter::~SealedWriter() = default;
SealedWriter::SealedWriter(SealedWriter&&) noexcept = default;
SealedWriter& SealedWriter::operator=(SealedWriter&&) noexcept = default;

std::string SealedWriter::seal(std::string_view text) {
  std::string bytes;
  seal(text, bytes);
  return bytes;
}

void SealedWriter::seal(std::string_view text, std::string& bytes) {
  bytes += std::exchange(state_->header, {});
  put_length(bytes, text.size() + k_overhead);
  const std::size_t piece = bytes.size();
  bytes.resize(piece + text.size() + k_overhead);
  crypto_secretstream_xchacha20poly1305_push(&state_->cipher, bytes_of(bytes) + piece, nullptr,
                                             bytes_of(text), text.size(), nullptr, 0,
                                             crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}

struct SealedReader::State {
  SecretKey key;
  crypto_secretstream_xchacha20poly1305_state cipher;
  bool begun = false;  // the header was read
  std::string buffer;
  std::size_t taken = 0;  // bytes of it

  std::string_view rest() const { return std::string_view(buffer).substr(taken); }
};

SealedReader::SealedReader(const SecretKey& key) : state_(std::make_unique<State>()) { state_->key = key; }

SealedReader::~SealedReader() = default;
SealedReader::SealedReader(SealedReader&&) noexcept = default;
SealedReader& SealedReader::operator=(SealedReader&&) noexcept = default;

void SealedReader::append(std::string_view bytes) {
  State& state = *state_;
  state.buffer.erase(0, std::exchange(state.taken, 0));
  state.buffer += bytes;
}

std::string SealedReader::take_rest() {
  std::string rest = std::exchange(state_->buffer, {});
  rest.erase(0, std::exchange(state_->taken, 0));
  return rest;
}

std::variant<std::monostate, std::string, rendezvous::CodecError> SealedReader::next() {
  State& state = *state_;
  const rendezvous::CodecError changed{"a message altered in transit"};
  if (!state.begun) {
    if (state.rest().size() < k_header) return std::monostate{};
    if (crypto_secretstream_xchacha20poly1305_init_pull(&state.cipher, bytes_of(state.rest()),
                                                        state.key.data()) != 0)
      return changed;
    state.begun = true;
    state.taken += k_header;
  }
  if (state.rest().size() < k_length) return std::monostate{};
  const std::size_t size = read_length(state.rest());
  if (size < k_overhead) return changed;
  if (size > k_max_piece + k_overhead) {
    return rendezvous::CodecError{fmt::format("a message of {} bytes, the limit is {}", size, k_max_piece)};
  }
  if (state.rest().size() - k_length < size) return std::monostate{};
  std::string text(size - k_overhead, '\0');
  const std::string_view piece = state.rest().substr(k_length, size);
  if (crypto_secretstream_xchacha20poly1305_pull(&state.cipher, bytes_of(text), nullptr, nullptr,
                                                 bytes_of(piece), piece.size(), nullptr, 0) != 0)
    return changed;
  state.taken += k_length + size;
  if (state.rest().empty()) (void)take_rest();  // no memory is kept while idle
  return text;
}

}  // namespace ddprun::net
