// What may be written to a file that a user sends to somebody else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Stands where a secret was: that there was one is a fact planning may need (a job's own secret is a key).
inline constexpr std::string_view k_removed_secret = "<secret-removed>";

// A variable that planning reads or that tells about the site: of schedulers, MPI launchers, visible devices,
// thread libraries, networks and the active Python.
bool is_captured_variable(std::string_view name);

// PMI_SHARED_SECRET, PBS_JOBCOOKIE, SLURM_JWT, Open MPI's precondition_transports, and every name that
// contains KEY, TOKEN, SECRET, PASSWORD, CREDENTIAL or COOKIE in either case.
bool is_secret_variable(std::string_view name);

// The text with the values of NAME=value pairs whose name reads like a secret's (--hf-token=..., API_KEY=...;
// but not --tokenizer=... or --key-file=...) and the passwords of URLs replaced.
std::string mask_text(std::string_view text);

// The same for an argument list, where a secret may also be the word after its option (--password x).
std::vector<std::string> mask_words(const std::vector<std::string>& words);

// An ancestor's command line: whole (but masked) for launchers' processes, else its first word alone.
std::string mask_title(std::string_view title);

}  // namespace ddprun
