#include "os/find_program.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

constexpr std::size_t k_head = 128;

facts::ProgramFacts look_at(const std::string& word, const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const bool directory = S_ISDIR(status.st_mode);
  const bool may_execute =
      S_ISREG(status.st_mode) && ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
  const bool needs_head = !directory && !may_execute;
  return {facts::judge_program(word, directory, may_execute, needs_head ? read_head(path, k_head) : ""),
          path};
}

// Returns the first executable file on the path; else the first that only lacks permission (execvp's EACCES).
facts::ProgramFacts search(const std::string& name, const std::string& path_variable) {
  facts::ProgramFacts refused;
  for (const std::string& folder : split(path_variable, ':')) {
    facts::ProgramFacts found = look_at(name, folder.empty() ? name : folder + "/" + name);
    if (found.kind == facts::ProgramKind::executable || found.kind == facts::ProgramKind::python_file)
      return found;
    if (found.kind == facts::ProgramKind::not_executable && refused.kind == facts::ProgramKind::missing)
      refused = found;
  }
  return refused;
}

}  // namespace

facts::ProgramFacts capture_program(const std::string& word,
                                    const std::optional<std::string>& path_variable) {
  if (word.empty()) return {};
  const facts::ProgramFacts here = look_at(word, word);
  if (word.find('/') != std::string::npos) return here;
  if (here.kind == facts::ProgramKind::python_file && word.ends_with(".py")) return here;
  const facts::ProgramFacts found = search(word, path_variable.value_or("/bin:/usr/bin"));
  if (found.kind != facts::ProgramKind::missing) return found;
  // The file here is most likely what the user meant: it can be explained, but not started by this name.
  return here.kind == facts::ProgramKind::executable
             ? facts::ProgramFacts{facts::ProgramKind::missing, here.path}
             : here;
}

FirstLine capture_first_line(const std::string& path) {
  constexpr std::size_t k_longest = 256;  // the kernel reads no more
  const std::string head = read_head(path, k_longest);
  if (!head.starts_with("#!")) return {};
  const std::string_view blanks = " \t";
  std::string_view line = std::string_view(head).substr(2, head.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  line = line.substr(0, line.find_last_not_of(blanks) + 1);
  FirstLine found{std::string(line), std::string(line.substr(0, line.find_first_of(blanks)))};
  found.interpreter_missing =
      found.interpreter.starts_with('/') && ::access(found.interpreter.c_str(), F_OK) != 0;
  return found;
}

}  // namespace ddprun::os
