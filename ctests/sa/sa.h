/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the programs of this folder share. Each shows one behaviour of <infiniband/ibv_sa.h>. The daemon at the other
 * end does as it is told by server(), see tests/src/sa.rs; the devices are the scripted provider's.
 */
#ifndef SA_TESTS_H
#define SA_TESTS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/ibv_sa.h>

#define UNUSED __attribute__((unused))

/* stdio's locks may be held by a thread that a child does not have: straight to the descriptor. */
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			dprintf(2, "%s:%d: not true: %s (errno %d, %s)\n", __FILE__, __LINE__,     \
				#condition, errno, strerror(errno));                               \
			_exit(99);                                                                 \
		}                                                                                  \
	} while (0)

/* It fails, with this errno. */
#define FAILS(call, error)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		REQUIRE((call) == -1);                                                             \
		REQUIRE(errno == (error));                                                         \
	} while (0)

static int control = -1;

/* Gives the daemon a command and returns its answer, which lives until the next. */
UNUSED __attribute__((format(printf, 1, 2))) static const char *server(const char *format, ...)
{
	static char answer[512];
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (control < 0) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };

		REQUIRE(getenv("SA_CONTROL"));
		strncpy(address.sun_path, getenv("SA_CONTROL"), sizeof(address.sun_path) - 1);
		REQUIRE((control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) >= 0);
		REQUIRE(connect(control, (struct sockaddr *)&address, sizeof(address)) == 0);
	}
	REQUIRE(send(control, command, strlen(command), MSG_NOSIGNAL) > 0);
	ssize_t length = recv(control, answer, sizeof(answer) - 1, 0);
	REQUIRE(length > 0);
	answer[length] = 0;
	return answer;
}

/* Waits until the daemon answers a question with this number. */
UNUSED static void server_until(const char *question, int number)
{
	for (int i = 0; atoi(server("%s", question)) != number; i++) {
		REQUIRE(i < 5000);
		usleep(1000);
	}
}

UNUSED static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	REQUIRE(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			REQUIRE(context = ibv_open_device(list[i]));
	REQUIRE(context);
	ibv_free_device_list(list);
	return context;
}

UNUSED static struct ibv_sa_event_channel *make_channel(void)
{
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();

	REQUIRE(channel);
	return channel;
}

UNUSED static struct ibv_sa_event *get(struct ibv_sa_event_channel *channel)
{
	struct ibv_sa_event *event = NULL;

	REQUIRE(ibv_sa_get_event(channel, &event) == 0);
	REQUIRE(event);
	return event;
}

/* Gets an event about a registration, which must have this status, and acks it. */
UNUSED static void expect_status(struct ibv_sa_event_channel *channel, void *context, int status)
{
	struct ibv_sa_event *event = get(channel);

	REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO);
	REQUIRE(event->context == context);
	if (event->status != status)
		dprintf(2, "status %d, wanted %d\n", event->status, status);
	REQUIRE(event->status == status);
	REQUIRE(ibv_sa_ack_event(event) == 0);
}

/* Gets a notice of this trap, in host order. */
UNUSED static struct ibv_sa_event *get_notice(struct ibv_sa_event_channel *channel, void *context, int trap)
{
	struct ibv_sa_event *event = get(channel);

	REQUIRE(event->attr_id == IBV_SA_ATTR_NOTICE);
	REQUIRE(event->status == 0);
	REQUIRE(event->context == context);
	REQUIRE(ibv_sa_notice_trap(event) == trap);
	return event;
}

/* The interface id of the GID that a notice is about. */
UNUSED static unsigned long long subject(const struct ibv_sa_event *event)
{
	union ibv_gid gid;
	unsigned long long id = 0;

	REQUIRE(ibv_sa_notice_gid(event, &gid) == 0);
	for (int i = 8; i < 16; i++)
		id = id << 8 | gid.raw[i];
	return id;
}

UNUSED static struct ibv_sa_id *make_id(struct ibv_sa_event_channel *channel, struct ibv_context *device, __be16 trap,
					void *context)
{
	struct ibv_sa_id *id = NULL;

	REQUIRE(ibv_sa_register_inform_info(channel, device, 1, trap, context, &id) == 0);
	REQUIRE(id);
	return id;
}

/* A registration that is active. */
UNUSED static struct ibv_sa_id *make_active(struct ibv_sa_event_channel *channel, struct ibv_context *device,
					    __be16 trap, void *context)
{
	struct ibv_sa_id *id = make_id(channel, device, trap, context);

	expect_status(channel, context, 0);
	return id;
}

UNUSED static void set_nonblocking(struct ibv_sa_event_channel *channel, bool on)
{
	int flags = fcntl(channel->fd, F_GETFL);

	REQUIRE(flags >= 0);
	REQUIRE(fcntl(channel->fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

/* Whether the descriptor becomes readable within so many milliseconds. */
UNUSED static bool readable(int fd, int milliseconds)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	int number = poll(&ready, 1, milliseconds);

	REQUIRE(number >= 0);
	return number == 1 && ready.revents == POLLIN;
}

/* No event comes within so many milliseconds. The descriptor may become readable all the same. */
UNUSED static void nothing_comes(struct ibv_sa_event_channel *channel, int milliseconds)
{
	struct ibv_sa_event *event;

	set_nonblocking(channel, true);
	for (int i = 0; i <= milliseconds; i += 5) {
		FAILS(ibv_sa_get_event(channel, &event), EAGAIN);
		usleep(5000);
	}
	set_nonblocking(channel, false);
}

/* errno is of a channel or registration that there cannot be without a daemon. */
UNUSED static bool is_without_daemon(void)
{
	const int errors[] = { ENOENT, ECONNREFUSED, ECONNRESET, EBUSY };

	for (unsigned int i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errno == errors[i])
			return true;
	return false;
}

/* ---- a thread that is blocked --------------------------------------------------------------- */

/* Set by a thread right before the call that will block; 0 until then. */
static volatile pid_t blocking_thread;

UNUSED static void i_am_about_to_block(void)
{
	blocking_thread = (pid_t)syscall(SYS_gettid);
}

static bool is_asleep(pid_t tid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return false;
	ssize_t length = read(file, text, sizeof(text) - 1);
	close(file);
	text[length > 0 ? length : 0] = 0;
	char *state = strrchr(text, ')');
	return state && state[1] && state[2] == 'S';
}

/* Waits until that thread sleeps and stays asleep. */
UNUSED static void wait_until_blocked(void)
{
	for (int seen = 0; seen < 4; usleep(2000))
		seen = blocking_thread && is_asleep(blocking_thread) ? seen + 1 : 0;
}

/* How many descriptors this process has. */
UNUSED static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

UNUSED static long memory_kib(void)
{
	char text[128];
	int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	REQUIRE(file >= 0);
	ssize_t length = read(file, text, sizeof(text) - 1);
	close(file);
	REQUIRE(length > 0);
	text[length] = 0;
	return strtol(text, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
