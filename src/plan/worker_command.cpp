#include "ddprun/plan/worker_command.hpp"

#include <string_view>

namespace ddprun {

namespace {

// torchrun's macro (torch/distributed/elastic/utils/api.py). Its template class also knows `$local_rank` and
// turns `$$` into `$`; ddprun leaves every other `$` as the user wrote it.
std::string replace_macro(std::string word, const std::string& number) {
  static constexpr std::string_view k_macro = "${local_rank}";
  for (std::size_t at = word.find(k_macro); at != std::string::npos;
       at = word.find(k_macro, at + number.size())) {
    word.replace(at, k_macro.size(), number);
  }
  return word;
}

bool needs_python(const Options& options, ProgramKind kind) {
  if (options.run_path) return true;
  if (options.no_python) return false;
  return options.module || kind != ProgramKind::executable;
}

}  // namespace

std::vector<std::string> make_worker_command(const Options& options, const std::string& python,
                                             ProgramKind kind, LocalRank local_rank) {
  std::vector<std::string> command;
  if (needs_python(options, kind)) {
    command = {python, "-u"};
    if (options.module && !options.run_path) command.emplace_back("-m");
  }
  const std::string number = std::to_string(local_rank.value);
  for (const std::string& word : options.command) command.push_back(replace_macro(word, number));
  return command;
}

}  // namespace ddprun
