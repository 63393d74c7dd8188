#include "commands/capture.hpp"

#include <fmt/format.h>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "console/print.hpp"
#include "os/files/slow_files.hpp"
#include "os/process/become.hpp"
#include "os/read_file.hpp"
#include "site/site.hpp"

namespace ddprun::commands {

namespace {

// Returns the variables by which a site is recognised, which belong to a capture also if no scheduler sets
// them. A profile that cannot be read is no reason to write none: it is in there, and planning from it shows
// what is wrong.
std::vector<std::string> recognising_variables(const facts::Snapshot& snapshot) {
  try {
    return site::site_variables(site::list_site_profiles(snapshot));
  } catch (const UsageError&) {
    return site::site_variables(site::builtin_site_profiles());
  }
}

// Refuses to overwrite a script: `ddprun --capture train.py` names it, and it must not be lost.
void refuse_overwriting(const std::string& path) {
  const std::string contents = os::ask_file_system(
      "cannot write " + printable(path), [&] { return os::read_head(path, facts::k_snapshot_limit); });
  if (contents.empty()) return;
  try {
    facts::parse_snapshot(contents, path);
  } catch (const Error&) {
    throw UsageError(fmt::format("--capture would overwrite {}, which is not a capture", printable(path)),
                     "name another file, or - for standard output");
  }
}

}  // namespace

// Writes the capture so that only the user can read it, until the user sends it: a value that is no secret to
// the tables may be one.
int write_capture(const facts::Snapshot& snapshot, const options::Options& options) {
  const std::string& path = options.capture_file;
  const facts::Snapshot clean = facts::without_secrets(snapshot, recognising_variables(snapshot));
  const std::string text = facts::render_snapshot(clean);
  if (path == "-") return console::print_data(text), 0;
  refuse_overwriting(path);
  os::set_umask(077);  // set for the rest of the process, which writes nothing else
  write_file(path, text, "name another file for --capture");
  console::say(fmt::format("wrote a snapshot of this host to {}; {}", path,
                           clean.removed_secrets.empty()
                               ? "no secrets were found"
                               : "removed the secrets in " + join(clean.removed_secrets, ", ")));
  return 0;
}

void write_file(const std::string& path, const std::string& text, const char* hint) {
  const std::string why = os::replace_slow_file(path, text);
  if (!why.empty()) throw Error(fmt::format("cannot write {}: {}", printable(path), why), hint);
}

}  // namespace ddprun::commands
