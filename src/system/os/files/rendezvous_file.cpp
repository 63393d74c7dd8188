#include "os/files/rendezvous_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/descriptors.hpp"
#include "os/files/slow_files.hpp"
#include "os/machine/capture_network.hpp"
#include "os/private_files.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr char k_text = 't', k_none = 'n';  // kinds of an answer from the child that looks

struct PathParts {
  std::string folder;
  std::string name;
};

PathParts parts_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

[[noreturn]] void refuse(const std::string& path, int error) {
  throw Error(fmt::format("cannot create the rendezvous file {}: {}", printable(path), describe_errno(error)),
              "name a folder that all hosts share with --rdzv-dir");
}

RendezvousFileLook look_now(const std::string& path) {
  const PathParts parts = parts_of(path);
  // An NFS client may remember for half a minute that there was no such file; opening the folder makes it ask
  // the server whether that is still so (close-to-open consistency, nfs(5)).
  const Fd folder(::open(parts.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    return {{}, errno == ENOENT ? std::string() : fmt::format("its folder: {}", describe_errno(errno))};
  }
  const Fd file(
      ::openat(folder.get(), parts.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  if (!file) {
    if (errno == ENOENT || errno == ESTALE) return {};
    return {{}, errno == ELOOP ? "it is a symbolic link" : describe_errno(errno)};
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return {{}, describe_errno(errno)};
  if (std::string why = why_not_private(status); !why.empty()) return {{}, std::move(why)};
  std::string text(k_max_rendezvous_file + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return {{}, describe_errno(errno)};
  if (static_cast<std::size_t>(got) > k_max_rendezvous_file) {
    return {{}, fmt::format("it is longer than {} bytes", k_max_rendezvous_file)};
  }
  text.resize(static_cast<std::size_t>(got));
  return {std::move(text), {}};
}

}  // namespace

RendezvousFile::RendezvousFile(std::string path, std::string text)
    : path_(std::move(path)), text_(std::move(text)) {
  const std::string temporary = fmt::format("{}.{}.{}", path_, capture_host_name(), ::getpid());
  ask_file_system("cannot create the rendezvous file " + printable(path_), [&] {
    const int folder = make_private_folder(parts_of(path_).folder);
    if (folder != 0 && folder != EEXIST) refuse(path_, folder);
    const int error = place_private_file(path_, temporary, text_, ::rename);
    if (error != 0) refuse(path_, error);
    return std::string();
  });
}

RendezvousFile::~RendezvousFile() {
  try_file_system([&] {
    if (look_now(path_).text == text_) ::unlink(path_.c_str());
    return std::string();
  });
}

RendezvousFileLook look_at_rendezvous_file(const std::string& path) {
  const auto answer = try_file_system([&] {
    const RendezvousFileLook look = look_now(path);
    return look.text ? k_text + *look.text : k_none + look.problem;
  });
  if (!answer) return {{}, "its file system does not answer"};
  if (answer->front() == k_text) return {answer->substr(1), {}};
  return {{}, answer->substr(1)};
}

}  // namespace ddprun::os
