// Bytes after a handshake, sealed with the keys that came of it.
// They are sealed by libsodium's secretstream, XChaCha20-Poly1305: no one between the two ends can read,
// change, reorder, repeat or leave out a part.
//
//   a header of 24 bytes, once; then pieces: 32-bit big-endian length, that many bytes
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/codec.hpp"

namespace ddprun::net {

// A piece holds one frame at most.
inline constexpr std::size_t k_max_piece = rendezvous::k_max_frame + rendezvous::k_frame_header;

class SealedWriter {
 public:
  explicit SealedWriter(const SecretKey& key);
  ~SealedWriter();
  SealedWriter(SealedWriter&&) noexcept;
  SealedWriter& operator=(SealedWriter&&) noexcept;

  // Seals the text. Returns the bytes to send, in this order. `text` is not longer than k_max_piece.
  std::string seal(std::string_view text);
  // Does the same, appending to `bytes`.
  void seal(std::string_view text, std::string& bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class SealedReader {
 public:
  explicit SealedReader(const SecretKey& key);
  ~SealedReader();
  SealedReader(SealedReader&&) noexcept;
  SealedReader& operator=(SealedReader&&) noexcept;

  void append(std::string_view bytes);
  // Returns the text of the next whole piece; nothing when more bytes are needed; an error for a piece that
  // is not the peer's next one, after which the stream cannot be used any more.
  std::variant<std::monostate, std::string, rendezvous::CodecError> next();
  // Takes the bytes behind the last piece, once no further piece comes.
  std::string take_rest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Text as the bytes that libsodium reads and writes.

inline unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
inline const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace ddprun::net
