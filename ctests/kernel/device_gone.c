// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A preload that stands for the removal of a device: Soft-RoCE's driver cannot be taken from its users, so the
// kernel's answers are given here, as drivers with disassociate_ucontext make it give them (ib_uverbs): every
// command fails with EIO; the event queue is still read to its end, then a read fails with EIO, or with EAGAIN
// on an O_NONBLOCK descriptor, and poll(2) says POLLERR. It lies below libibverbs, and so below any library
// before that.
// Built with: cc -shared -fPIC device_gone.c

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

void device_gone(const struct ibv_context *context);

static int gone_cmd_fd = -1;
static int gone_async_fd = -1;

void device_gone(const struct ibv_context *context)
{
	gone_cmd_fd = context->cmd_fd;
	gone_async_fd = context->async_fd;
}

int ioctl(int fd, unsigned long request, ...)
{
	__typeof__(&ioctl) real = (__typeof__(real))dlsym(RTLD_NEXT, "ioctl");
	va_list arguments;

	va_start(arguments, request);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	if (fd == gone_cmd_fd && fd != -1) {
		errno = EIO;
		return -1;
	}
	return real(fd, request, argument);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	__typeof__(&write) real = (__typeof__(real))dlsym(RTLD_NEXT, "write");

	if (fd == gone_cmd_fd && fd != -1) {
		errno = EIO;
		return -1;
	}
	return real(fd, bytes, size);
}

// The numbers may be given to other files.
int close(int fd)
{
	__typeof__(&close) real = (__typeof__(real))dlsym(RTLD_NEXT, "close");

	if (fd == gone_cmd_fd)
		gone_cmd_fd = -1;
	if (fd == gone_async_fd)
		gone_async_fd = -1;
	return real(fd);
}

ssize_t read(int fd, void *bytes, size_t size)
{
	__typeof__(&read) real = (__typeof__(real))dlsym(RTLD_NEXT, "read");
	__typeof__(&poll) real_poll = (__typeof__(real_poll))dlsym(RTLD_NEXT, "poll");
	struct pollfd ready = { fd, POLLIN, 0 };

	if (fd == gone_async_fd && fd != -1 && real_poll(&ready, 1, 0) == 0) {
		errno = fcntl(fd, F_GETFL) & O_NONBLOCK ? EAGAIN : EIO;
		return -1;
	}
	return real(fd, bytes, size);
}

int poll(struct pollfd *fds, nfds_t number, int timeout)
{
	__typeof__(&poll) real = (__typeof__(real))dlsym(RTLD_NEXT, "poll");
	int ready;

	for (nfds_t i = 0; i < number; i++) {
		if (fds[i].fd == gone_async_fd && gone_async_fd != -1)
			timeout = 0;
	}
	ready = real(fds, number, timeout);
	for (nfds_t i = 0; i < number && ready >= 0; i++) {
		if (fds[i].fd == gone_async_fd && gone_async_fd != -1) {
			ready += fds[i].revents == 0;
			fds[i].revents |= POLLERR;
		}
	}
	return ready;
}
