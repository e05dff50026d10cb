/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A test double for libibumad: one InfiniBand port, fake0/1, with an SA that agrees to whatever is asked. It is no
 * simulator of the kernel. What it can show is what needs hardware otherwise: a port whose reports another process
 * has, and a device that is taken away.
 *
 * DOUBLE_DIR holds its switches, files that exist or not (taken, gone), and "calls", a line for each call of note. A
 * file "device" in it has the device's name and the port's GUID, of 16 hexadecimal digits, where they are others.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_open;
/* The kernel gives the reports of a port once. */
static int is_registered;
static int answers;
static unsigned char answer[256];

static int is_set(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", getenv("DOUBLE_DIR"), name);
	return access(path, F_OK) == 0;
}

static void called(const char *what)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/calls", getenv("DOUBLE_DIR"));
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%s\n", what) < 0)
		abort();
	close(fd);
}

struct device {
	char name[UMAD_CA_NAME_LEN];
	unsigned long long guid;
};

static struct device device(void)
{
	struct device device = { "fake0", 0x1235 };
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/device", getenv("DOUBLE_DIR"));
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%19s %llx", device.name, &device.guid) != 2)
			abort();
		fclose(file);
	}
	return device;
}

int umad_init(void)
{
	return 0;
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	(void)max;
	strcpy(cas[0], device().name);
	return 1;
}

int umad_get_ca(const char *name, umad_ca_t *ca)
{
	struct device here = device();

	called("get_ca");
	if (strcmp(name, here.name))
		return -ENODEV;
	memset(ca, 0, sizeof(*ca));
	strcpy(ca->ca_name, name);
	ca->numports = 1;
	ca->node_guid = htobe64(here.guid - 1);
	return 0;
}

int umad_release_ca(umad_ca_t *ca)
{
	(void)ca;
	return 0;
}

int umad_get_port(const char *name, int number, umad_port_t *port)
{
	struct device here = device();

	called("get_port");
	if (strcmp(name, here.name))
		return -ENODEV;
	memset(port, 0, sizeof(*port));
	strcpy(port->ca_name, name);
	strcpy(port->link_layer, "InfiniBand");
	port->portnum = number;
	port->port_guid = htobe64(here.guid);
	port->base_lid = 7;
	port->sm_lid = 1;
	port->state = 4;
	return 0;
}

int umad_release_port(umad_port_t *port)
{
	(void)port;
	return 0;
}

int umad_open_port(const char *name, int number)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)name;
	(void)number;
	called("open");
	pthread_mutex_lock(&lock);
	is_open = 1;
	answers = 0;
	pthread_mutex_unlock(&lock);
	return fd;
}

/* Takes its time, in which the port is closed already. */
int umad_close_port(int fd)
{
	pthread_mutex_lock(&lock);
	is_open = 0;
	pthread_mutex_unlock(&lock);
	called("close");
	usleep(500000);
	close(fd);
	return 0;
}

/* The real one returns EPERM for everything, and leaves errno as the kernel set it. */
int umad_register(int fd, int class, int version, uint8_t rmpp, long mask[16 / sizeof(long)])
{
	(void)fd;
	(void)class;
	(void)version;
	(void)rmpp;
	(void)mask;
	pthread_mutex_lock(&lock);
	if (!is_set("taken") && !is_registered) {
		is_registered = 1;
		pthread_mutex_unlock(&lock);
		return 5;
	}
	pthread_mutex_unlock(&lock);
	errno = EINVAL;
	return -EPERM;
}

int umad_unregister(int fd, int agent)
{
	(void)fd;
	(void)agent;
	pthread_mutex_lock(&lock);
	is_registered = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

size_t umad_size(void)
{
	return 64;
}

int umad_send(int fd, int agent, void *umad, int length, int timeout, int retries)
{
	(void)fd;
	(void)agent;
	(void)timeout;
	(void)retries;
	pthread_mutex_lock(&lock);
	called(is_open ? "send" : "send to a closed port");
	memcpy(answer, (char *)umad + umad_size(), length);
	answer[3] = 0x81;
	answers = 1;
	pthread_mutex_unlock(&lock);
	return 0;
}

int umad_recv(int fd, void *umad, int *length, int timeout)
{
	int have;

	(void)fd;
	for (; timeout > 0; timeout -= 5) {
		if (is_set("gone"))
			return -EIO;
		pthread_mutex_lock(&lock);
		have = answers;
		answers = 0;
		if (have) {
			memset(umad, 0, umad_size());
			((ib_user_mad_t *)umad)->addr.lid = htobe16(1);
			memcpy((char *)umad + umad_size(), answer, sizeof(answer));
			*length = sizeof(answer);
		}
		pthread_mutex_unlock(&lock);
		if (have)
			return 5;
		usleep(5000);
	}
	return -ETIMEDOUT;
}
