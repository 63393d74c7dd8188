// Turning this process into another program, and what it passes on without an environment.
#pragma once

#include <string>
#include <vector>

namespace ddprun::os {

// Words as execve(2) takes them.

// Returns the pointers with a null pointer at the end; they live as long as the texts.
inline std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Goes to `directory` and runs `file` in this process. `arguments` begins with the name. Throws Error, naming
// the directory or the file, when that fails.
[[noreturn]] void become_program(const std::string& file, const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, const std::string& directory,
                                 const std::string& host);

// Returns this program's own file: /proc/self/exe; empty if that cannot be read.
std::string capture_own_file();
int capture_umask();
void set_umask(int mask);
// Returns "NAME=value" as they are.
std::vector<std::string> capture_environment_strings();

// Reads all of standard input to its end; false when it is longer than `limit`.
bool read_standard_input(std::size_t limit, std::string& text);
// Makes standard input /dev/null from now on.
void drop_standard_input();

}  // namespace ddprun::os
