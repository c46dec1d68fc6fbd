/* A disk that fails, put between a program and the C library by LD_PRELOAD.
 *
 * KEVEL_SHIM_DIR    the folder whose files are looked after
 * KEVEL_SHIM_FAIL   WHAT:N:HOW:TIMES, the N-th call of a kind fails, and TIMES - 1 after it (0: all after it)
 *                   WHAT is write, sync, truncate or read; HOW is enospc, eio, estale, short or slow
 *                   (a slow call takes long and succeeds, and so does whatever waits for it; a short write does half of what it should; the next one does the rest, or fails)
 * KEVEL_SHIM_COUNT  a file that is told, at the end, how many calls of each kind there were
 * KEVEL_SHIM_TRACE  a file that is told every write, truncation, sync, creation and removal, in order
 *
 * A line of the trace is followed by as many bytes as it says:
 *   W path offset length\n BYTES     T path length\n     S path\n     D path\n (a folder is synced)
 *   C path\n (created)               U path\n (removed)    F path\n (a sync that fails)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long a slow call takes: as a disk does that is worn out, or shared with many. */
#define SLOW_MICROSECONDS 300000

enum what { WRITE, SYNC, TRUNCATE, READ, KINDS };
static const char *names[KINDS] = {"write", "sync", "truncate", "read"};
static long counts[KINDS];
static enum what fail_what = KINDS;
static long fail_from, fail_times;
static int fail_errno, fail_short, fail_slow;
static char folder[4096];
static size_t folder_length;
static int trace = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t real_write(int fd, const void *data, size_t length) {
  return syscall(SYS_write, fd, data, length);
}
static ssize_t real_pwrite(int fd, const void *data, size_t length, off_t at) {
  return syscall(SYS_pwrite64, fd, data, length, at);
}

__attribute__((constructor)) static void begin(void) {
  const char *dir = getenv("KEVEL_SHIM_DIR"), *fail = getenv("KEVEL_SHIM_FAIL");
  const char *to = getenv("KEVEL_SHIM_TRACE");
  if (dir && realpath(dir, folder)) folder_length = strlen(folder);
  if (to) trace = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char what[16], how[16];
  if (!fail || sscanf(fail, "%15[^:]:%ld:%15[^:]:%ld", what, &fail_from, how, &fail_times) != 4) return;
  for (int kind = 0; kind < KINDS; kind++)
    if (!strcmp(what, names[kind])) fail_what = kind;
  fail_errno = !strcmp(how, "enospc") ? ENOSPC : !strcmp(how, "estale") ? ESTALE : EIO;
  fail_short = !strcmp(how, "short");
  fail_slow = !strcmp(how, "slow");
}

__attribute__((destructor)) static void end(void) {
  const char *to = getenv("KEVEL_SHIM_COUNT");
  if (!to) return;
  FILE *file = fopen(to, "w");
  if (!file) return;
  for (int kind = 0; kind < KINDS; kind++) fprintf(file, "%s %ld\n", names[kind], counts[kind]);
  fclose(file);
}

/* The path below the folder of an open file; 0 if it is elsewhere. */
static const char *below(int fd, char *path, size_t size) {
  char link[64];
  if (!folder_length) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length < (ssize_t)folder_length) return 0;
  path[length] = 0;
  if (strncmp(path, folder, folder_length)) return 0;
  if (path[folder_length] == 0) return "";
  return path[folder_length] == '/' ? path + folder_length + 1 : 0;
}

static const char *below_name(const char *name) {
  if (!folder_length || strncmp(name, folder, folder_length)) return 0;
  return name[folder_length] == '/' ? name + folder_length + 1 : 0;
}

/* SQLite's shared memory is no data; what the store was told to note is for the trace alone. */
static int counts_as_disk(const char *path) {
  size_t length = strlen(path);
  if (!strcmp(path, "acks")) return 0;
  return length < 4 || strcmp(path + length - 4, "-shm");
}

/* Whether this call is to fail. Under the lock. */
static int fails(enum what kind) {
  long number = ++counts[kind];
  int its_turn = kind == fail_what && number >= fail_from && (!fail_times || number < fail_from + fail_times);
  if (its_turn && fail_slow) {
    usleep(SLOW_MICROSECONDS);
    return 0;
  }
  return its_turn;
}

static void note(const char *format, ...) {
  char line[4200];
  va_list arguments;
  if (trace < 0) return;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  real_write(trace, line, length);
}

static ssize_t do_write(int fd, const void *data, size_t length, off_t at, int positioned) {
  char path[4096];
  int saved = errno;
  const char *name = below(fd, path, sizeof path);
  errno = saved;
  if (!name || !*name) return positioned ? real_pwrite(fd, data, length, at) : real_write(fd, data, length);
  pthread_mutex_lock(&lock);
  if (counts_as_disk(name) && fails(WRITE)) {
    if (!fail_short || length < 2) {
      pthread_mutex_unlock(&lock);
      errno = fail_errno;
      return -1;
    }
    length /= 2;
  }
  off_t from = at;
  if (!positioned) {
    int flags = fcntl(fd, F_GETFL);
    from = lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
  }
  ssize_t written = positioned ? real_pwrite(fd, data, length, at) : real_write(fd, data, length);
  saved = errno;
  if (written > 0 && trace >= 0) {
    note("W %s %lld %zd\n", name, (long long)from, written);
    real_write(trace, data, written);
  }
  pthread_mutex_unlock(&lock);
  errno = saved;
  return written;
}

ssize_t write(int fd, const void *data, size_t length) { return do_write(fd, data, length, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return do_write(fd, data, length, at, 1); }
ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) { return do_write(fd, data, length, at, 1); }

static int do_sync(int fd, long number) {
  char path[4096];
  const char *name = below(fd, path, sizeof path);
  if (!name) return syscall(number, fd);
  pthread_mutex_lock(&lock);
  int failing = fails(SYNC);
  int done = failing ? -1 : syscall(number, fd);
  int saved = failing ? fail_errno : errno;
  struct stat status;
  if (failing)
    note("F %s\n", *name ? name : ".");
  else if (!done && !fstat(fd, &status))
    note("%c %s\n", S_ISDIR(status.st_mode) ? 'D' : 'S', *name ? name : ".");
  pthread_mutex_unlock(&lock);
  errno = saved;
  return done;
}

int fsync(int fd) { return do_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return do_sync(fd, SYS_fdatasync); }

static int do_truncate(int fd, off_t length) {
  char path[4096];
  const char *name = below(fd, path, sizeof path);
  if (!name || !counts_as_disk(name)) return syscall(SYS_ftruncate, fd, length);
  pthread_mutex_lock(&lock);
  int failing = fails(TRUNCATE);
  int done = failing ? -1 : syscall(SYS_ftruncate, fd, length);
  int saved = failing ? fail_errno : errno;
  if (!done) note("T %s %lld\n", name, (long long)length);
  pthread_mutex_unlock(&lock);
  errno = saved;
  return done;
}

int ftruncate(int fd, off_t length) { return do_truncate(fd, length); }
int ftruncate64(int fd, off_t length) { return do_truncate(fd, length); }

static ssize_t do_read(int fd, void *data, size_t length, off_t at, int positioned) {
  char path[4096];
  const char *name = fail_what == READ || getenv("KEVEL_SHIM_COUNT") ? below(fd, path, sizeof path) : 0;
  if (name && *name && counts_as_disk(name)) {
    pthread_mutex_lock(&lock);
    int failing = fails(READ);
    pthread_mutex_unlock(&lock);
    if (failing) {
      errno = fail_errno;
      return -1;
    }
  }
  return positioned ? syscall(SYS_pread64, fd, data, length, at) : syscall(SYS_read, fd, data, length);
}

ssize_t read(int fd, void *data, size_t length) { return do_read(fd, data, length, 0, 0); }
ssize_t pread(int fd, void *data, size_t length, off_t at) { return do_read(fd, data, length, at, 1); }
ssize_t pread64(int fd, void *data, size_t length, off_t at) { return do_read(fd, data, length, at, 1); }

static int do_open(const char *name, int flags, mode_t mode) {
  const char *ours = trace >= 0 && flags & O_CREAT ? below_name(name) : 0;
  if (!ours) return syscall(SYS_openat, AT_FDCWD, name, flags, mode);
  pthread_mutex_lock(&lock);
  int there = !syscall(SYS_faccessat, AT_FDCWD, name, F_OK);
  int fd = syscall(SYS_openat, AT_FDCWD, name, flags, mode);
  int saved = errno;
  if (fd >= 0 && !there) note("C %s\n", ours);
  pthread_mutex_unlock(&lock);
  errno = saved;
  return fd;
}

int open(const char *name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return do_open(name, flags, mode);
}

int open64(const char *name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return do_open(name, flags | O_LARGEFILE, mode);
}

int unlink(const char *name) {
  const char *ours = below_name(name);
  pthread_mutex_lock(&lock);
  int done = syscall(SYS_unlinkat, AT_FDCWD, name, 0);
  int saved = errno;
  if (!done && ours) note("U %s\n", ours);
  pthread_mutex_unlock(&lock);
  errno = saved;
  return done;
}
