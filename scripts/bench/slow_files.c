/* A slow shared file system, imitated: preloaded (LD_PRELOAD), it lets each call that looks at a file below SLOW_FILES, and each byte
   that is read of one, wait for its turn at one server, which all processes of this machine share (the clock in the file
   SLOW_CLOCK): SLOW_CALLS a second, SLOW_BYTES a second. A host's cache is not imitated. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char* folder;
static size_t length;
static double calls_each, bytes_each; /* ns */
static _Atomic int64_t* clock_at;
static _Atomic char is_slow[65536];

__attribute__((constructor)) static void begin(void) {
  folder = getenv("SLOW_FILES");
  if (!folder) return;
  length = strlen(folder);
  calls_each = 1e9 / atof(getenv("SLOW_CALLS"));
  bytes_each = 1e9 / atof(getenv("SLOW_BYTES"));
  const int file = open(getenv("SLOW_CLOCK"), O_RDWR | O_CLOEXEC);
  clock_at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
}

static int below(const char* path) { return folder && path && strncmp(path, folder, length) == 0; }

static void wait_turn(double cost) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t at = now.tv_sec * 1000000000LL + now.tv_nsec;
  int64_t free_at = atomic_load(clock_at), end;
  do {
    end = (free_at > at ? free_at : at) + (int64_t)cost;
  } while (!atomic_compare_exchange_weak(clock_at, &free_at, end));
  if (end - at < 100000) return; /* the kernel sleeps no shorter; the debt is the next one's */
  const struct timespec until = {end / 1000000000LL, end % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
  }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int note(int file, const char* path) {
  if (file >= 0 && file < 65536) atomic_store(&is_slow[file], below(path));
  return file;
}
static int slow_at(int file) { return file >= 0 && file < 65536 && atomic_load(&is_slow[file]); }

#define OPEN(name)                                                   \
  int name(const char* path, int flags, ...) {                       \
    va_list more;                                                    \
    va_start(more, flags);                                           \
    const mode_t mode = (mode_t)va_arg(more, int);                   \
    va_end(more);                                                    \
    if (below(path)) wait_turn(calls_each);                          \
    return note(((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode), path); \
  }
OPEN(open)
OPEN(open64)

#define STATUS(name, kind)                         \
  int name(const char* path, struct kind* status) { \
    if (below(path)) wait_turn(calls_each);         \
    return REAL(name)(path, status);                \
  }
STATUS(stat, stat)
STATUS(stat64, stat64)
STATUS(lstat, stat)
STATUS(lstat64, stat64)

DIR* opendir(const char* path) {
  if (below(path)) wait_turn(calls_each);
  return REAL(opendir)(path);
}

int close(int file) {
  note(file, NULL);
  return REAL(close)(file);
}

ssize_t read(int file, void* bytes, size_t size) {
  const ssize_t count = REAL(read)(file, bytes, size);
  if (count > 0 && slow_at(file)) wait_turn(bytes_each * (double)count);
  return count;
}
ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  const ssize_t count = REAL(pread)(file, bytes, size, offset);
  if (count > 0 && slow_at(file)) wait_turn(bytes_each * (double)count);
  return count;
}
ssize_t pread64(int file, void* bytes, size_t size, off64_t offset) {
  const ssize_t count = REAL(pread64)(file, bytes, size, offset);
  if (count > 0 && slow_at(file)) wait_turn(bytes_each * (double)count);
  return count;
}
