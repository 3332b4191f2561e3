// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The guest's first process: init FOLDER
 *
 * Mounts what programs expect, runs FOLDER/run by the shell, writes its exit status to
 * FOLDER/status and ends the guest. It is static and calls the kernel itself, because under
 * emulation each program that is executed on the way costs some 50 ms.
 *
 * The root is the host's files, read-only. FOLDER is the host's too, and can be written, as can the
 * folder that cowlab_share in the environment names, if it does.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARE_OPTIONS "version=9p2000.L,trans=virtio,access=any,msize=512000"

/* Into the kernel's log, which is what the host keeps of a guest that dies. */
static void say(const char *format, ...)
{
	FILE *log = fopen("/dev/kmsg", "w");
	va_list values;

	if (!log)
		return;
	fputs("<3>cowlab: ", log);
	va_start(values, format);
	vfprintf(log, format, values);
	va_end(values);
	fputc('\n', log);
	fclose(log);
}

static int mount_at(const char *what, const char *where, const char *type, const char *options)
{
	mkdir(where, 0755);
	if (!mount(what, where, type, 0, options) || errno == EBUSY || errno == ENODEV)
		return 0;
	say("%s cannot be mounted: %s", where, strerror(errno));
	return -1;
}

/* Let programs write to one of the host's folders, without the host's files being changed. */
static void let_write(const char *folder)
{
	char upper[64], work[64], options[256];

	if (access(folder, F_OK))
		return;
	snprintf(upper, sizeof(upper), "/run/over/upper%s", folder);
	snprintf(work, sizeof(work), "/run/over/work%s", folder);
	mkdir(upper, 0755);
	mkdir(work, 0755);
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", folder, upper,
		 work);
	mount_at("overlay", folder, "overlay", options);
}

static int mount_all(const char *folder)
{
	const char *share = getenv("cowlab_share");
	static const char *const writable[] = { "/etc",	 "/home", "/mnt", "/opt",
						"/root", "/srv",  "/tmp", "/var" };

	mount_at("devtmpfs", "/dev", "devtmpfs", NULL);
	mount_at("proc", "/proc", "proc", NULL);
	mount_at("sysfs", "/sys", "sysfs", NULL);
	mount_at("tmpfs", "/run", "tmpfs", "mode=755");
	mount_at("debugfs", "/sys/kernel/debug", "debugfs", NULL);
	mount_at("tracefs", "/sys/kernel/tracing", "tracefs", NULL);
	mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", NULL);
	mount_at("devpts", "/dev/pts", "devpts", "mode=620,ptmxmode=666");
	mount_at("tmpfs", "/dev/shm", "tmpfs", "mode=1777");
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
	mkdir("/run/over", 0755);
	mkdir("/run/over/upper", 0755);
	mkdir("/run/over/work", 0755);
	for (size_t i = 0; i < sizeof(writable) / sizeof(*writable); i++)
		let_write(writable[i]);
	/* After those, which may lie above them, as the share may above FOLDER. */
	if (share && mount_at("cowlab_share", share, "9p", SHARE_OPTIONS))
		return -1;
	return mount_at("cowlab", folder, "9p", SHARE_OPTIONS);
}

static void bring_up_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}

/*
 * The kernel is told to boot with one CPU. While another runs, QEMU before 8.1 may keep its
 * translation of an instruction that the kernel is just patching: the breakpoint stays, and the
 * kernel dies of it (it was one boot in 70).
 */
static void bring_up_cpus(void)
{
	for (int cpu = 1;; cpu++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (write(fd, "1", 1) != 1)
			say("CPU %d cannot be brought up: %s", cpu, strerror(errno));
		close(fd);
	}
}

/* The device of the port that QEMU calls NAME. */
static int open_port(const char *name, int flags)
{
	const char *ports = "/sys/class/virtio-ports";
	DIR *folder = opendir(ports);
	struct dirent *entry;
	char path[384], is[64];
	int fd = -1;

	while (folder && fd < 0 && (entry = readdir(folder))) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s/name", ports, entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(is, sizeof(is), file) && !strcmp(strtok(is, "\n"), name)) {
			snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
			fd = open(path, flags | O_CLOEXEC);
		}
		fclose(file);
	}
	if (folder)
		closedir(folder);
	return fd;
}

/* A port can be opened once, and programs open /dev/stderr: they get pipes, and we carry on. */
struct relay {
	int from, to;
	/* What was read and not taken yet. */
	size_t begin, end;
	char kept[65536];
};

static void close_relay(struct relay *relay)
{
	close(relay->from);
	close(relay->to);
	relay->from = -1;
	relay->begin = relay->end = 0;
}

static int carry(struct relay *relay)
{
	if (relay->begin == relay->end) {
		ssize_t length = read(relay->from, relay->kept, sizeof(relay->kept));

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (length <= 0) {
			close_relay(relay);
			return 0;
		}
		relay->begin = 0;
		relay->end = length;
	}
	while (relay->begin < relay->end) {
		ssize_t wrote =
			write(relay->to, relay->kept + relay->begin, relay->end - relay->begin);

		if (wrote < 0 && errno == EAGAIN)
			return 0;
		if (wrote < 0 && errno != EINTR) {
			/* EPIPE: nobody will read it. */
			close_relay(relay);
			return 0;
		}
		relay->begin += wrote < 0 ? 0 : wrote;
	}
	return 1;
}

/* Not read on before the rest is taken. */
static struct pollfd next_of(const struct relay *relay)
{
	if (relay->begin < relay->end)
		return (struct pollfd){ .fd = relay->to, .events = POLLOUT };
	return (struct pollfd){ .fd = relay->from, .events = POLLIN };
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* Until the shell ends; whatever is orphaned becomes ours and is reaped here. */
static int wait_for(pid_t shell, struct relay *relays, size_t count)
{
	struct pollfd watched[3];
	int status = -1, ended = 0;
	sigset_t none;

	sigemptyset(&none);
	while (!ended) {
		pid_t pid;
		int one;

		while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
			if (pid == shell) {
				status = one;
				ended = 1;
			}
		}
		for (size_t i = 0; i < count; i++)
			watched[i] = next_of(&relays[i]);
		if (!ended && ppoll(watched, count, NULL, &none) < 0)
			continue;
		for (size_t i = 0; i < count && !ended; i++)
			if (relays[i].from >= 0 && watched[i].revents)
				carry(&relays[i]);
	}
	/* What it has written before it ended, but not what others hold the pipes open for. */
	for (size_t i = 1; i < count; i++) {
		if (relays[i].from < 0)
			continue;
		fcntl(relays[i].from, F_SETFL, O_NONBLOCK);
		while (carry(&relays[i]))
			;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static pid_t start(const char *script, const int fds[3], int terminal)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setsid();
	for (int fd = 0; fd < 3; fd++)
		dup2(fds[fd], fd);
	if (terminal)
		ioctl(0, TIOCSCTTY, 1);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execl("/bin/sh", "sh", script, NULL);
	_exit(127);
}

static int run(const char *folder)
{
	char script[512];
	static struct relay relays[3];
	int fds[3], terminal = open("/dev/ttyS1", O_RDWR | O_CLOEXEC | O_NOCTTY);
	const char *const names[] = { "cowlab.in", "cowlab.out", "cowlab.err" };

	snprintf(script, sizeof(script), "%s/run", folder);
	if (getenv("cowlab_terminal")) {
		int all[3] = { terminal, terminal, terminal };

		return wait_for(start(script, all, 1), relays, 0);
	}
	for (int i = 0; i < 3; i++) {
		int ends[2], port = open_port(names[i], i ? O_WRONLY : O_RDONLY);

		if (port < 0 || pipe2(ends, O_CLOEXEC)) {
			say("no port %s: %s", names[i], strerror(errno));
			return 125;
		}
		relays[i].from = i ? ends[0] : port;
		relays[i].to = i ? port : ends[1];
		fds[i] = i ? ends[1] : ends[0];
	}
	/* A command that takes no input must not keep us from its output. */
	fcntl(relays[0].to, F_SETFL, O_NONBLOCK);
	pid_t shell = start(script, fds, 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return wait_for(shell, relays, 3);
}

int main(int argc, char **argv)
{
	char path[512];
	sigset_t child;

	if (argc != 2 || getpid() != 1) {
		fprintf(stderr, "init: is started by the kernel: init FOLDER\n");
		return 2;
	}
	/* Without a status, the host shows the log, which says what is wrong. */
	if (mount_all(argv[1]))
		reboot(RB_AUTOBOOT);
	bring_up_cpus();
	bring_up_loopback();
	sethostname("cowlab", 6);
	/* Looked at only while we wait, so that none is missed. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal(SIGCHLD, do_nothing);
	signal(SIGPIPE, SIG_IGN);

	int status = run(argv[1]);

	snprintf(path, sizeof(path), "%s/status", argv[1]);
	FILE *file = fopen(path, "w");
	if (!file || fprintf(file, "%d\n", status) < 0 || fclose(file))
		say("the status %d cannot be written to %s: %s", status, path, strerror(errno));
	sync();
	/* QEMU ends instead of booting again (-no-reboot). */
	reboot(RB_AUTOBOOT);
	return 1;
}
