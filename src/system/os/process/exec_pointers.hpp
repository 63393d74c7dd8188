// Words as execve(2) takes them.
#pragma once

#include <string>
#include <vector>

namespace ddprun::os {

// Returns the pointers with a null pointer at the end; they live as long as the texts.
inline std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace ddprun::os
