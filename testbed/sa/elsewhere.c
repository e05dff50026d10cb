/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Preloaded, it makes libibumad look for devices below $ELSEWHERE instead of in /sys/class and /dev: a program then sees
 * a device that the kernel does not have, with the rights that somebody has given its files.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *at(const char *path, char *room)
{
	const char *elsewhere = getenv("ELSEWHERE");
	int is_ours = !strncmp(path, "/sys/class/infiniband", 21) || !strncmp(path, "/dev/infiniband", 15);

	if (!elsewhere || !is_ours || snprintf(room, PATH_MAX, "%s%s", elsewhere, path) >= PATH_MAX)
		return path;
	return room;
}

int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, mode_t);
	char room[PATH_MAX];
	va_list more;

	va_start(more, flags);
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	*(void **)&real = dlsym(RTLD_NEXT, "open");
	return real(at(path, room), flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

DIR *opendir(const char *path)
{
	DIR *(*real)(const char *);
	char room[PATH_MAX];

	*(void **)&real = dlsym(RTLD_NEXT, "opendir");
	return real(at(path, room));
}

int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
	    int (*compare)(const struct dirent **, const struct dirent **))
{
	int (*real)(const char *, struct dirent ***, int (*)(const struct dirent *),
		    int (*)(const struct dirent **, const struct dirent **));
	char room[PATH_MAX];

	*(void **)&real = dlsym(RTLD_NEXT, "scandir");
	return real(at(path, room), list, filter, compare);
}
