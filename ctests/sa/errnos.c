// SPDX-License-Identifier: MIT OR Apache-2.0
//
// errnos FUNCTION ERRNO: that function fails with that errno, as its manual says. tests/tests/sa_errnos.rs has the table,
// and compares it with the manuals.

#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <dlfcn.h>

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_context *device;
static struct ibv_sa_id *id;
static struct ibv_sa_event *event;
static int foreign[64];
static bool no_memory, no_files;

// In the place of libc's, for the library too.
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

int socket(int domain, int type, int protocol)
{
	if (no_files) {
		errno = ENFILE;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static void handler(int number)
{
	(void)number;
}

static void no_descriptors(void)
{
	const struct rlimit limit = { 3, 3 };

	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// Somebody else is where the daemon was: at its path, with this type of socket and so long a queue.
static int instead(int type, int backlog)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	server("stop");
	strncpy(address.sun_path, getenv("IBV_SA_SOCKET"), sizeof(address.sun_path) - 1);
	int fd = socket(AF_UNIX, type, 0);
	REQUIRE(fd >= 0);
	REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	if (backlog < 0)
		return fd;
	REQUIRE(listen(fd, backlog) == 0);
	// Full.
	for (int i = 0; i < backlog + 1; i++)
		REQUIRE(connect(socket(AF_UNIX, type, 0), (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

// A connection cannot be made; true if that was all that was to be done.
static bool without_daemon(int error)
{
	switch (error) {
	case ENOENT: server("stop"); return true;
	case ECONNREFUSED: REQUIRE(close(instead(SOCK_SEQPACKET, -1)) == 0); return true;
	case ETIMEDOUT: instead(SOCK_SEQPACKET, 0); return true;
	case EPROTO: instead(SOCK_STREAM, -1); return true;
	case EACCES:
		// The settings are read before: this user's environment would not count.
		device = open_device("ibsim0");
		REQUIRE(seteuid(65534) == 0);
		return true;
	case EMFILE: no_descriptors(); return true;
	case ENFILE: no_files = true; return true;
	case ENOMEM: no_memory = true; return true;
	default: return false;
	}
}

static int create(int error)
{
	if (error == ECONNRESET)
		server("greet hang-up");
	else if (error == EBUSY || error == EPROTONOSUPPORT)
		server("greet refuse %d no", error);
	else if (error == ETIMEDOUT)
		server("greet silent");
	else if (error == EPROTO)
		server("greet garbage");
	else if (error == ENOMEM)
		server("live"); // dlopen(3) needs memory too
	if (error != ETIMEDOUT && error != EPROTO)
		without_daemon(error);
	return ibv_sa_create_event_channel() ? 0 : -1;
}

static int enlist(int error)
{
	struct ibv_sa_id *made;
	void *provider = dlopen("libibverbs.so.1", RTLD_NOW);
	void (*reply)(const char *, long, int);

	if (error == EBADF)
		ibv_sa_destroy_event_channel(channel);
	else if (error == EOPNOTSUPP)
		device = open_device("scr0");
	else if (error == EIO) {
		REQUIRE(provider);
		*(void **)&reply = dlsym(provider, "scripted_reply");
		REQUIRE(reply);
		reply("ibv_query_device", EIO, 0);
	} else if (error != EINVAL) {
		if (error != ENOMEM)
			server("close");
		REQUIRE(without_daemon(error));
	}
	return ibv_sa_register_inform_info(channel, device, error == EINVAL ? 0 : 1, IBV_SA_SM_TRAP_ALL, NULL, &made);
}

static int get_one(int error)
{
	struct sigaction action = { .sa_handler = handler };
	struct ibv_sa_event *got = NULL;

	if (error == EBADF)
		ibv_sa_destroy_event_channel(channel);
	else if (error == EAGAIN)
		set_nonblocking(channel, true);
	else if (error == EINTR) {
		// Again and again: the first may come too early.
		const struct itimerval often = { { 0, 50000 }, { 0, 50000 } };

		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
	} else if (error == ENOMEM) {
		make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
		no_memory = true;
		FAILS(ibv_sa_get_event(channel, &got), ENOMEM);
		// Nothing is lost.
		no_memory = false;
		expect_status(channel, NULL, 0);
		errno = ENOMEM;
		return -1;
	}
	int result = ibv_sa_get_event(error == EINVAL ? (void *)foreign : channel, &got);
	REQUIRE(!got);
	return result;
}

static int other(const char *function, int error)
{
	const struct ibv_sa_event nothing = { .attr_id = IBV_SA_ATTR_NOTICE };
	const struct ibv_sa_event *notice = error == EINVAL ? &nothing : event;
	union ibv_gid gid;

	if (!strcmp(function, "ibv_sa_free_id"))
		return ibv_sa_free_id(error == EINVAL ? (void *)foreign : id);
	if (!strcmp(function, "ibv_sa_ack_event"))
		return ibv_sa_ack_event(error == EINVAL ? (void *)foreign : event);
	if (!strcmp(function, "ibv_sa_notice_trap"))
		return ibv_sa_notice_trap(notice);
	if (!strcmp(function, "ibv_sa_notice_lid"))
		return ibv_sa_notice_lid(notice);
	if (!strcmp(function, "ibv_sa_notice_issuer"))
		return ibv_sa_notice_issuer(notice, &gid, NULL);
	REQUIRE(!strcmp(function, "ibv_sa_notice_gid"));
	if (error == ENODATA) {
		// Of a switch that names no port.
		static unsigned char bytes[80] = { 0x81, 0, 0, 2, 0, 128, 0, 9 };
		static const struct ibv_sa_event link = {
			.attr_id = IBV_SA_ATTR_NOTICE, .attr = bytes, .attr_size = 80, .attr_count = 1
		};

		notice = &link;
	}
	return ibv_sa_notice_gid(notice, &gid);
}

static int in_child(const char *function, int error)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		errno = 0;
		_exit(other(function, error) == -1 ? errno : 0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	errno = WEXITSTATUS(status);
	return -1;
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	const char *function = argv[1];
	int error = 1, result;

	while (error < 200 && (!strerrorname_np(error) || strcmp(strerrorname_np(error), argv[2])))
		error++;

	if (!strcmp(function, "ibv_sa_create_event_channel")) {
		errno = 0;
		result = create(error);
	} else {
		device = open_device("ibsim0");
		channel = make_channel();
		if (!strcmp(function, "ibv_sa_register_inform_info")) {
			errno = 0;
			result = enlist(error);
		} else if (!strcmp(function, "ibv_sa_get_event")) {
			result = get_one(error);
		} else {
			id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
			server("notice 0 64 fe80::7");
			event = get(channel);
			result = error == EBADF ? in_child(function, error) : other(function, error);
		}
	}
	no_memory = false;
	if (result != -1 || errno != error)
		dprintf(2, "%s: %d, errno %d (%s)\n", function, result, errno, strerror(errno));
	REQUIRE(result == -1 && errno == error);
	printf("good\n");
	return 0;
}
