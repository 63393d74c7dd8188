// --container: a command that starts each worker inside a container, with the worker's variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/sourced.hpp"

namespace ddprun::options {

// Ways in which a program that starts containers passes variables on.
enum class ContainerKind {
  passes_all,  // Charliecloud, Shifter, Sarus, ...: the environment goes in as it is
  prefixed,    // Apptainer, Singularity: X inside is APPTAINERENV_X outside, whatever --cleanenv removes
  by_option,   // podman, podman-hpc, docker, nerdctl: none but what -e names
};

struct Container {
  std::vector<std::string> words;  // "apptainer", "exec", "--nv", "image.sif"; empty: no container
  std::string origin;              // "--container"
  ContainerKind kind = ContainerKind::passes_all;
  std::string prefix;  // "APPTAINERENV_", of ContainerKind::prefixed
  friend bool operator==(const Container&, const Container&) = default;
};

// Parses words as a shell splits them, with '...', "..." and backslashes, but nothing expanded. Throws
// UsageError for an open quote, for no word, and for a podman or docker whose words have neither run nor
// exec.
Container parse_container(const std::string& text, const std::string& origin);

// Reports whether a variable of ddprun's own environment is passed in beside those that ddprun sets: of
// torch, its communication, threads and visible devices.
bool enters_container(std::string_view name);

// Returns the container's words, then `command`; the command alone if there is no container.
std::vector<std::string> wrap_in_container(const Container& container, std::vector<std::string> command);

// Returns a wrapped command with -e NAME for each of `names`, if the kind needs that.
std::vector<std::string> name_variables(const Container& container, std::vector<std::string> command,
                                        const std::vector<std::string>& names);

}  // namespace ddprun::options
