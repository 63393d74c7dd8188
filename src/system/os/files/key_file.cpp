#include "os/files/key_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/descriptors.hpp"
#include "os/machine/capture_network.hpp"
#include "os/private_files.hpp"

namespace ddprun::os {

namespace {

constexpr std::size_t k_digits = 2 * std::tuple_size_v<SecretKey>;

[[noreturn]] void refuse(const std::string& path, const std::string& why, const std::string& hint) {
  throw Error(fmt::format("cannot use the key file {}: {}", printable(path), why), hint);
}

[[noreturn]] void refuse_errno(const std::string& path, const char* action) {
  const std::string why = to_lower(std::strerror(errno));
  throw Error(fmt::format("cannot {} the key file {}: {}", action, printable(path), why),
              "name another place with --key-file");
}

std::string quoted(const std::string& path) { return shell_quote(std::string_view(path)); }

std::string remake_hint(const std::string& path) {
  return fmt::format("remove it with rm {} and let ddprun make a new one", quoted(path));
}

void check_ownership(const std::string& path, const struct stat& status) {
  const std::string why = why_not_private(status);
  if (why.empty()) return;
  refuse(path, why,
         !S_ISREG(status.st_mode) ? "name another place with --key-file"
         : status.st_uid != ::geteuid()
             ? "name a file of your own with --key-file"
             : fmt::format("chmod 600 {}, and remove it first if others may have read it", quoted(path)));
}

SecretKey parse_key(const std::string& path, const std::string& text) {
  SecretKey key{};
  bool good = text.size() == k_digits + 1 && text.back() == '\n';
  for (std::size_t i = 0; good && i < key.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    good = std::from_chars(digits, digits + 2, key[i], 16).ptr == digits + 2;
  }
  if (!good)
    refuse(path, fmt::format("it does not hold one line of {} hexadecimal digits", k_digits),
           remake_hint(path));
  return key;
}

std::string random_key_text() {
  SecretKey key{};
  if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
    throw Error(fmt::format("cannot create a random key: {}", to_lower(std::strerror(errno))));
  }
  std::string text;
  for (const unsigned char byte : key) text += fmt::format("{:02x}", byte);
  return text + "\n";
}

void make_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  const std::string folder = path.substr(0, slash);
  errno = make_private_folder(folder);
  if (errno != 0 && errno != EEXIST) refuse_errno(path, "create");
}

// Writes the whole file under a name of this process alone, then gives it its name with link(2), which fails
// when that exists: also atomic over NFS, where O_EXCL was not always. What link says is not believed (a
// repeated NFS request reports EEXIST for our own success): the file is read again in either case.
void make_key_file(const std::string& path) {
  make_folder(path);
  const std::string temporary = fmt::format("{}.{}.{}", path, capture_host_name(), ::getpid());
  errno = place_private_file(path, temporary, random_key_text(), ::link);
  if (errno != 0 && errno != EEXIST) refuse_errno(path, "create");
}

}  // namespace

std::string default_key_path(const std::string& explicit_path, const std::string& home) {
  if (!explicit_path.empty()) return explicit_path;
  if (!home.empty()) return home + "/.ddprun/key";
  throw UsageError("cannot place the key file: HOME is not set",
                   "name one with --key-file, or set DDPRUN_SECRET");
}

SecretKey read_key_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) refuse_errno(path, "read");
  check_ownership(path, status);
  std::string text(k_digits + 2, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) refuse_errno(path, "read");
  text.resize(static_cast<std::size_t>(got));
  return parse_key(path, text);
}

SecretKey read_or_make_key_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 && errno == ENOENT) make_key_file(path);
  return read_key_file(path);
}

}  // namespace ddprun::os
