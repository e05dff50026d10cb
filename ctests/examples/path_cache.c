// SPDX-License-Identifier: MIT OR Apache-2.0
//
// path_cache DEVICE PORT: a cache of path records that notices keep true. Reads GIDs from stdin, one a line, and says
// whether the path was known. What asks the SA for a path is left out: resolve() only says that it would.
//
// The rule: nothing is replayed. Whenever notices may have been missed (a registration became active, notices were
// lost), the whole cache goes; a notice about one port takes that port's entry.

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ibv_sa.h>

#define ENTRIES 64

struct entry {
	union ibv_gid gid;
	int used;
	/* and the path record */
};

static struct entry cache[ENTRIES];

static struct entry *find(const union ibv_gid *gid)
{
	for (int i = 0; i < ENTRIES; i++)
		if (cache[i].used && !memcmp(&cache[i].gid, gid, sizeof(*gid)))
			return &cache[i];
	return NULL;
}

static void resolve(const union ibv_gid *gid)
{
	static int next;

	cache[next] = (struct entry){ .gid = *gid, .used = 1 };
	next = (next + 1) % ENTRIES;
}

static void look_up(const char *text)
{
	union ibv_gid gid;

	if (inet_pton(AF_INET6, text, gid.raw) != 1) {
		printf("%s is no GID\n", text);
	} else if (find(&gid)) {
		printf("%s: known\n", text);
	} else {
		printf("%s: asked for\n", text);
		resolve(&gid);
	}
}

static void handle(const struct ibv_sa_event *event)
{
	union ibv_gid gid;
	struct entry *entry;

	if (ibv_sa_notice_gid(event, &gid)) {
		// No notice: a registration's status, or notices were lost. What is cached may be wrong.
		memset(cache, 0, sizeof(cache));
		printf("cache emptied: %s\n", ibv_sa_event_str(event));
	} else if ((entry = find(&gid))) {
		entry->used = 0;
		printf("entry dropped: %s\n", ibv_sa_event_str(event));
	} else {
		printf("not cached: %s\n", ibv_sa_event_str(event));
	}
}

int main(int argc, char **argv)
{
	const __be16 traps[] = { IBV_SA_SM_TRAP_GID_IN_SERVICE, IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE };
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();
	struct ibv_sa_id *ids[2];
	char line[128];

	if (argc != 3 || !channel)
		return perror("path_cache DEVICE PORT"), 1;
	setlinebuf(stdout);
	setvbuf(stdin, NULL, _IONBF, 0); // so that poll() knows what is left to read
	if (fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		return perror("fcntl"), 1;
	for (int i = 0; i < 2; i++) {
		struct ibv_sa_inform_filter filter = {
			.comp_mask = IBV_SA_INFORM_IS_GENERIC | IBV_SA_INFORM_TRAP,
			.is_generic = 1,
			.flags = IBV_SA_AUTO_REREGISTER,
			.device_name = argv[1],
			.trap_number = traps[i],
		};

		if (ibv_sa_register_inform_info_ex(channel, NULL, (uint8_t)atoi(argv[2]), &filter, NULL, &ids[i]))
			return perror("register"), 1;
	}
	for (;;) {
		struct pollfd fds[] = { { .fd = 0, .events = POLLIN }, { .fd = channel->fd, .events = POLLIN } };
		struct ibv_sa_event *event;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return perror("poll"), 1;
		// Notices first: an answer from the cache is as new as can be.
		while (!ibv_sa_get_event(channel, &event)) {
			handle(event);
			ibv_sa_ack_event(event);
		}
		if (errno != EAGAIN && errno != EINTR)
			return perror("ibv_sa_get_event"), 1;
		if (fds[0].revents) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			line[strcspn(line, "\n")] = 0;
			look_up(line);
		}
	}
	for (int i = 0; i < 2; i++)
		ibv_sa_free_id(ids[i]);
	ibv_sa_destroy_event_channel(channel);
	return 0;
}
