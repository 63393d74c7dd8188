// The hash (BLAKE2b, 256 bits) by which copies of --stage are known and checked.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ddprun::copies {

class StageDigest {
 public:
  StageDigest();
  StageDigest(const StageDigest&) = delete;
  StageDigest& operator=(const StageDigest&) = delete;
  ~StageDigest();

  void add(std::string_view bytes);
  std::string text();  // 64 hexadecimal digits, of all that was added; once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddprun::copies
