/*
 * What a VMM that an attacker has taken over would try. Runs in the VMM's place, in the very same jail, and says on its
 * standard error how each attempt ended: "name result", a result being an errno's name, "ok" or a number.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, long result) {
  if (result < 0) dprintf(2, "%s %s\n", name, strerrorname_np(errno));
  else dprintf(2, "%s ok\n", name);
}

static void say_number(const char *name, long number) { dprintf(2, "%s %ld\n", name, number); }

static long open_read(const char *path) { return open(path, O_RDONLY); }

static long connect_unix(const char *name, int abstract) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + abstract, name, strlen(name));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(fd, (void *)&address, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name));
}

static int count_entries(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return -1;
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static void attempt_all(char **given) {
  const char *build = given[0], *host_file = given[1], *other_life = given[2], *host_socket = given[3];
  int host_pid = atoi(given[4]);
  char path[4096];

  say("read_passwd", open_read("/etc/passwd"));
  say("read_passwd_upwards", open_read("../../../../../../etc/passwd"));
  say("read_host_file", open_read(host_file));
  say("read_other_life", open_read(other_life));
  say("see_processes", count_entries("/proc"));
  say("read_own_root_link", open_read("/proc/self/root"));
  say_number("own_pid", getpid());
  say_number("descriptors", count_entries("/fd") - 3); /* without ".", ".." and the one that lists */
  say_number("environment", environ[0] ? 1 : 0);

  say("signal_host_process", kill(host_pid, 0));
  say("signal_everyone", kill(-1, 0));
  say("trace", ptrace(PTRACE_ATTACH, host_pid, 0, 0));
  say("read_memory_of_another", syscall(SYS_process_vm_readv, host_pid, 0, 0, 0, 0, 0));
  say("take_descriptor_of_another", syscall(SYS_pidfd_getfd, 0, 0, 0));

  say("socket_inet", socket(AF_INET, SOCK_STREAM, 0));
  say("socket_inet6", socket(AF_INET6, SOCK_DGRAM, 0));
  say("socket_netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  say("socket_packet", socket(AF_PACKET, SOCK_RAW, 0));
  say("socket_vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  say("socket_alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
  say("connect_abstract", connect_unix(host_socket, 1));
  say("connect_path", connect_unix(host_file, 0));

  say("mount", mount("tmpfs", "/dev", "tmpfs", 0, 0));
  say("remount_root", mount(0, "/", 0, MS_REMOUNT | MS_BIND, 0));
  say("unmount", umount2("/dev/null", MNT_DETACH));
  say("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
  say("user_namespace", unshare(CLONE_NEWUSER));
  say("clone_user_namespace", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  say("clone3", syscall(SYS_clone3, 0, 0));
  say("enter_namespace", setns(0, 0));
  say("chroot", chroot("/"));
  say("open_by_handle", syscall(SYS_open_by_handle_at, AT_FDCWD, 0, 0));

  say("become_root", setuid(0));
  say("become_root_group", setgid(0));
  say("add_group", setgroups(1, (gid_t[]){0}));
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct wanted[2] = {{~0u, ~0u, 0}, {0}};
  say("take_capabilities", syscall(SYS_capset, &header, wanted));
  say("allow_new_privileges", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
  say("raise_limit", setrlimit(RLIMIT_NPROC, &(struct rlimit){1 << 20, 1 << 20}));
  say("allow_core_files", setrlimit(RLIMIT_CORE, &(struct rlimit){1 << 20, 1 << 20}));
  say("realtime", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}));
  say("higher_priority", setpriority(PRIO_PROCESS, 0, -5));
  say("lock_memory", mlock(malloc(1 << 20), 1 << 20));
  snprintf(path, sizeof path, "%s/setuid", build);
  pid_t child = fork();
  if (child == 0) {
    execl(path, path, "whoami", (char *)0);
    _exit(1);
  }
  waitpid(child, 0, 0);

  say("write_root", open("/file", O_CREAT | O_WRONLY, 0600));
  say("write_dev", mkdir("/dev/folder", 0700));
  say("write_descriptors", open("/fd/file", O_CREAT | O_WRONLY, 0600));
  snprintf(path, sizeof path, "%s/file", build);
  say("write_build", open(path, O_CREAT | O_WRONLY, 0600));
  snprintf(path, sizeof path, "%s/setuid", build);
  say("write_program", open(path, O_WRONLY));
  say("make_device", mknod("/dev/memory", S_IFCHR | 0600, makedev(1, 1)));
  say("open_memory_device", open("/dev/mem", O_RDWR));
  say("open_kvm", open("/dev/kvm", O_RDWR));
  say("open_null", open("/dev/null", O_RDWR));

  say("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -2));
  say("keyctl", syscall(SYS_keyctl, 0, -2, 1));
  say("io_uring", syscall(SYS_io_uring_setup, 1, 0));
  say("bpf", syscall(SYS_bpf, 0, 0, 0));
  say("perf", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
  say("userfaultfd", syscall(SYS_userfaultfd, 0));
  say("load_module", syscall(SYS_init_module, 0, 0, ""));
  say("kernel_log", syscall(SYS_syslog, 3, 0, 0));
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  say("set_clock", clock_settime(CLOCK_REALTIME, &now));
  say("set_hostname", sethostname("x", 1));
  say("personality", syscall(SYS_personality, 0x0400000));
}

static void fork_without_end(void) {
  int count = 0;
  for (;;) {
    pid_t child = fork();
    if (child < 0) break;
    if (child == 0) pause();
    count++;
  }
  dprintf(2, "forked %d %s\n", count, strerrorname_np(errno));
  pause();
}

static void take_memory(void) {
  for (;;) {
    char *memory = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) break;
    memset(memory, 1, 1 << 20);
  }
  say("memory", -1);
}

/* Children of their own sessions that ignore what can be ignored. */
static void cling_to_life(void) {
  for (int signal_number = 1; signal_number < 65; signal_number++) signal(signal_number, SIG_IGN);
  for (int child = 0; child < 5; child++) {
    if (fork() == 0) {
      setsid();
      if (fork() > 0) _exit(0);
      for (;;) pause();
    }
  }
  dprintf(2, "clinging\n");
  for (;;) pause();
}

int main(int count, char **arguments) {
  (void)count;
  const char *mode = arguments[1];
  if (strcmp(mode, "whoami") == 0) say_number("setuid_program_runs_as_root", geteuid() == 0);
  if (strcmp(mode, "all") == 0) attempt_all(arguments + 2);
  if (strcmp(mode, "fork") == 0) fork_without_end();
  if (strcmp(mode, "memory") == 0) take_memory();
  if (strcmp(mode, "cling") == 0) cling_to_life();
  return 0;
}
