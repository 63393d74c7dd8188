// Finds where a request ends. Remembers how far it has looked, so that a request coming byte by byte costs no
// more than one coming at once.
#pragma once

#include "store/request.hpp"

namespace ddprun::store {

class RequestScanner {
 public:
  enum class Result { incomplete, complete, illegal };

  // Begins a request of this operation; its number byte is already consumed.
  void begin(StoreOperation operation);
  // `body` is what has come so far, from the body's first byte; calls for one request only ever see it grow.
  // Complete: length() bytes make the body. Illegal: complaint() says why. A length is judged as soon as it
  // is there, before the bytes it announces.
  Result scan(std::string_view body, const StoreLimits& limits);

  std::size_t length() const { return position_; }
  std::string_view complaint() const { return complaint_; }

 private:
  Result illegal(std::string_view complaint);
  Result scan_field(char kind, std::string_view body, const StoreLimits& limits);

  RequestShape shape_{};
  std::size_t position_ = 0;  // of the first field not yet passed
  std::uint64_t fields_left_ = 0;
  bool counted_ = true;  // the count has been read, or there is none
  std::string_view complaint_;
};

}  // namespace ddprun::store
