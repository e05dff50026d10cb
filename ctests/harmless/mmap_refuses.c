// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A preload library: a mapping of the size of libibv_sa's books is refused. All other memory is there.

#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if ((flags & MAP_ANONYMOUS) && size > (10 << 20) && size < (24 << 20)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}
