#include <fmt/format.h>

#include <utility>

#include "rendezvous/codec.hpp"

namespace ddprun::rendezvous {

std::string make_frame(std::string_view payload) {
  std::string frame;
  frame.reserve(k_frame_header + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>(payload.size() >> shift & 0xffU));
  return frame.append(payload);
}

void FrameReader::append(std::string bytes) {
  if (buffer_.empty()) {
    buffer_ = std::move(bytes);
  } else {
    buffer_ += bytes;
  }
}

std::variant<std::monostate, std::string, CodecError> FrameReader::next() {
  if (buffer_.size() < k_frame_header) return std::monostate{};
  std::size_t length = 0;
  for (std::size_t i = 0; i < k_frame_header; ++i) {
    length = length << 8 | static_cast<unsigned char>(buffer_[i]);
  }
  if (length > k_max_frame) {
    return CodecError{fmt::format("a message of {} bytes, the limit is {}", length, k_max_frame)};
  }
  if (buffer_.size() - k_frame_header < length) return std::monostate{};
  const std::size_t end = k_frame_header + length;
  std::string rest = buffer_.substr(end);
  buffer_.resize(end);
  buffer_.erase(0, k_frame_header);
  return std::exchange(buffer_, std::move(rest));
}

}  // namespace ddprun::rendezvous
