#include "os/named_pipe.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/system_failure.hpp"

namespace ddprun::os {

NamedPipe::NamedPipe(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) ::unlink(path_.c_str());
  if (::mkfifo(path_.c_str(), 0600) != 0)
    throw system_failure("cannot create the named pipe " + path_, errno);
  descriptor_ = Fd(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (descriptor_) return;
  const int error = errno;
  ::unlink(path_.c_str());
  throw system_failure("cannot open the named pipe " + path_, error);
}

NamedPipe::~NamedPipe() { ::unlink(path_.c_str()); }

}  // namespace ddprun::os
