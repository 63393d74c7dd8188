#include "os/process/answering_child.hpp"

#include <cerrno>
#include <utility>

#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/helper_child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

AnsweringChild::AnsweringChild(const std::function<std::string()>& call, const std::string& purpose,
                               const std::function<void()>& afterwards) {
  Pipe pipe = make_pipe();
  answer_ = std::move(pipe.reader);
  child_ = fork_helper([&] {
    write_whole(pipe.writer.get(), call());
    pipe.writer.close();
    if (afterwards) afterwards();
    return 0;
  });
  const int error = errno;
  if (child_ < 0) throw system_failure("cannot " + purpose, error);
  process_ = open_pidfd(child_);
}

AnsweringChild::AnsweringChild(AnsweringChild&& other) noexcept
    : answer_(std::move(other.answer_)),
      process_(std::move(other.process_)),
      child_(std::exchange(other.child_, -1)) {}

AnsweringChild& AnsweringChild::operator=(AnsweringChild&& other) noexcept {
  end();
  answer_ = std::move(other.answer_);
  process_ = std::move(other.process_);
  child_ = std::exchange(other.child_, -1);
  return *this;
}

std::optional<ExitStatus> AnsweringChild::end() {
  return end_helper(std::exchange(child_, -1), std::exchange(process_, Fd()));
}

}  // namespace ddprun::os
