#include "options/container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::options {

namespace {

struct ContainerProgram {
  std::string_view name;
  ContainerKind kind;
  const char* prefix;
};

// apptainer/apptainer, internal/pkg/util/env/env.go; SingularityCE alike; podman-run(1): -e NAME takes the
// value of podman's own environment, and so does docker's.
constexpr std::array<ContainerProgram, 6> k_container_programs{
    {{"apptainer", ContainerKind::prefixed, "APPTAINERENV_"},
     {"singularity", ContainerKind::prefixed, "SINGULARITYENV_"},
     {"podman", ContainerKind::by_option, ""},
     {"podman-hpc", ContainerKind::by_option, ""},
     {"docker", ContainerKind::by_option, ""},
     {"nerdctl", ContainerKind::by_option, ""}}};

constexpr const char* k_container_hint = "as in --container 'apptainer exec --nv image.sif'";

// Reader of one word of a command line.
class WordReader {
 public:
  // Reads a character; outside quotes a blank ends the word.
  void read(char c) {
    if (escaped_) {
      add(c);
      escaped_ = false;
    } else if (quote_ != '\0') {
      read_quoted(c);
    } else if (c == '\'' || c == '"') {
      quote_ = c;
      begun_ = true;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      end_word();
    } else {
      add(c);
    }
  }
  void end_word() {
    if (begun_) words_.push_back(std::move(word_));
    word_.clear();
    begun_ = false;
  }
  bool is_open() const { return quote_ != '\0' || escaped_; }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  void add(char c) {
    word_ += c;
    begun_ = true;
  }
  void read_quoted(char c) {
    if (c == quote_) {
      quote_ = '\0';
    } else if (c == '\\' && quote_ == '"') {
      escaped_ = true;
    } else {
      word_ += c;
    }
  }

  std::vector<std::string> words_;
  std::string word_;
  char quote_ = '\0';
  bool escaped_ = false;
  bool begun_ = false;
};

std::vector<std::string> split_command(const std::string& text, const std::string& origin) {
  WordReader reader;
  for (const char c : text) reader.read(c);
  if (reader.is_open())
    throw UsageError(fmt::format("{} has an open quote: {}", origin, printable(text, 80)), k_container_hint);
  reader.end_word();
  std::vector<std::string> words = reader.take();
  if (words.empty() || words.front().empty()) throw UsageError(origin + " is empty", k_container_hint);
  return words;
}

auto find_subcommand(const std::vector<std::string>& words) {
  return std::ranges::find_if(words, [](const std::string& word) { return word == "run" || word == "exec"; });
}

}  // namespace

Container parse_container(const std::string& text, const std::string& origin) {
  Container container;
  container.words = split_command(text, origin);
  container.origin = origin;
  const std::string& program = container.words.front();
  const std::string_view name = std::string_view(program).substr(program.rfind('/') + 1);
  const auto known = std::ranges::find_if(k_container_programs,
                                          [&](const ContainerProgram& each) { return each.name == name; });
  if (known == k_container_programs.end()) return container;
  container.kind = known->kind;
  container.prefix = known->prefix;
  if (known->kind == ContainerKind::by_option && find_subcommand(container.words) == container.words.end()) {
    throw UsageError(fmt::format("{} names neither run nor exec of {}", origin, name),
                     fmt::format("as in --container '{} run --network=host IMAGE'", name));
  }
  return container;
}

bool enters_container(std::string_view name) {
  constexpr std::array<std::string_view, 6> k_starts{"NCCL_", "RCCL_", "GLOO_", "TORCH_", "OMP_", "PYTORCH_"};
  return std::ranges::any_of(k_starts, [&](std::string_view start) { return name.starts_with(start); }) ||
         name.ends_with("_VISIBLE_DEVICES") || name == "ZE_AFFINITY_MASK";
}

std::vector<std::string> wrap_in_container(const Container& container, std::vector<std::string> command) {
  command.insert(command.begin(), container.words.begin(), container.words.end());
  return command;
}

std::vector<std::string> name_variables(const Container& container, std::vector<std::string> command,
                                        const std::vector<std::string>& names) {
  if (container.kind != ContainerKind::by_option) return command;
  std::vector<std::string> given;
  for (const std::string& name : names) given.insert(given.end(), {"-e", name});
  command.insert(find_subcommand(command) + 1, given.begin(), given.end());
  return command;
}

}  // namespace ddprun::options
