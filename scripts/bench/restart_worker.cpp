// A worker that shows how long a restart takes: restart_worker FOLDER. Each worker records its first
// instruction in FOLDER/records. Once all are up, the one with the highest rank records its death and kills
// itself; the others wait to be stopped. A worker that finds a death recorded belongs to the next attempt and
// ends well.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include <csignal>

namespace {

constexpr unsigned k_lifetime_seconds = 60;  // an orphan does not outlive this
constexpr long k_settle_nanoseconds = 200'000'000;

long long now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

void record(const std::string& path, const char* what, long long time) {
  const std::string line = std::string(what) + " " + std::to_string(time) + "\n";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(90);
  close(file);
}

int lines_in(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  int lines = 0;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) lines += c == '\n' ? 1 : 0;
  std::fclose(file);
  return lines;
}

int number(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

void rest(long nanoseconds) {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const long long born = now();
  if (argc != 2) return 91;
  alarm(k_lifetime_seconds);
  const std::string folder = argv[1];
  if (access((folder + "/died").c_str(), F_OK) == 0) {
    record(folder + "/records", "again", born);
    return 0;
  }
  record(folder + "/records", "up", born);
  if (number("RANK") != number("WORLD_SIZE") - 1) {
    for (;;) pause();
  }
  while (lines_in(folder + "/records") < number("WORLD_SIZE")) rest(1'000'000);
  rest(k_settle_nanoseconds);
  record(folder + "/died", "died", now());
  kill(getpid(), SIGKILL);
}
