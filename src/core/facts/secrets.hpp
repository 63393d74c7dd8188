// Removal of secrets from files that a user sends to others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::facts {

// Stands where a secret was: that there was one is a fact planning may need (a job's own secret is a key).
inline constexpr std::string_view k_removed_secret = "<secret-removed>";

// Reports whether planning reads the variable or it describes the site: of schedulers, MPI launchers, visible
// devices, thread libraries, networks and the active Python.
bool is_captured_variable(std::string_view name);

// Reports whether the variable's name says that its value is a secret: PMI_SHARED_SECRET, PBS_JOBCOOKIE,
// SLURM_JWT, DB_PASS, and what users write freely, SLURM_JOB_COMMENT.
bool is_secret_variable(std::string_view name);

// Reports the same of an option with its dashes (--hf-token, but not --tokenizer or --key-file), a key or a
// variable.
bool is_secret_option(std::string_view name);

// A header of HTTP whose value is a secret, in any case of letters: Authorization, X-Api-Key.
bool is_secret_header(std::string_view name);

// Returns the text without values given to a name like a secret's (--hf-token=..., "api_key": "...",
// ?sig=...), the passwords of URLs, and words that look like a secret by themselves: Bearer ..., tokens with
// their issuer's mark (hf_..., ghp_..., AKIA...), JWTs, private keys.
std::string mask_text(std::string_view text);

// Masks an argument list likewise, where a secret may also be the word after its option (--password x), or
// after the option `also`.
std::vector<std::string> mask_words(const std::vector<std::string>& words, std::string_view also = {});

// Masks an ancestor's command line: whole (but masked) for launchers' processes, else its first word alone.
std::string mask_title(std::string_view title);

}  // namespace ddprun::facts
