// SPDX-License-Identifier: MIT OR Apache-2.0
//
// forks fork|_Fork idle|busy: a child can do nothing with its parent's channel, takes none of its events, and may have
// channels of its own; the parent goes on. Busy: other threads of the parent are in the calls meanwhile.

#define _GNU_SOURCE
#include "sa.h"

static struct ibv_sa_event_channel *channel, *noise;
static struct ibv_context *device;
static volatile bool stop;

static void *make_noise(void *argument)
{
	while (!stop) {
		struct ibv_sa_id *id = make_id(noise, device, IBV_SA_SM_TRAP_CREATE_MC_GROUP, argument);

		REQUIRE(ibv_sa_free_id(id) == 0);
		usleep(2000);
	}
	return NULL;
}

static void child(struct ibv_sa_id *id, struct ibv_sa_event *held)
{
	struct ibv_sa_event *event;
	struct ibv_sa_id *other;

	control = -1;
	FAILS(ibv_sa_get_event(channel, &event), EBADF);
	FAILS(ibv_sa_ack_event(held), EBADF);
	FAILS(ibv_sa_free_id(id), EBADF);
	FAILS(ibv_sa_register_inform_info(channel, device, 1, IBV_SA_SM_TRAP_ALL, NULL, &other), EBADF);
	ibv_sa_destroy_event_channel(channel);

	struct ibv_sa_event_channel *own = make_channel();
	other = make_active(own, device, IBV_SA_SM_TRAP_DELETE_MC_GROUP, own);
	FAILS(ibv_sa_get_event(channel, &event), EBADF);
	FAILS(ibv_sa_ack_event(held), EBADF);
	FAILS(ibv_sa_free_id(id), EBADF);
	// The child of a child.
	pid_t pid = fork();
	if (pid == 0) {
		FAILS(ibv_sa_get_event(own, &event), EBADF);
		FAILS(ibv_sa_get_event(channel, &event), EBADF);
		_exit(0);
	}
	int status;
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	server("notices 0 1 67");
	REQUIRE(ibv_sa_ack_event(get_notice(own, own, 67)) == 0);
	REQUIRE(ibv_sa_free_id(other) == 0);
	ibv_sa_destroy_event_channel(own);
	_exit(0);
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	int status;

	REQUIRE(argc == 3);
	bool busy = !strcmp(argv[2], "busy");
	device = open_device("ibsim0");
	channel = make_channel();
	noise = make_channel();
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, NULL);
	server("notices 1 2 64");
	struct ibv_sa_event *held = get(channel);

	for (int i = 0; busy && i < 3; i++)
		REQUIRE(pthread_create(&threads[i], NULL, make_noise, NULL) == 0);
	for (int i = 0; i < (busy ? 30 : 1); i++) {
		pid_t pid = strcmp(argv[1], "fork") ? _Fork() : fork();

		REQUIRE(pid >= 0);
		if (pid == 0)
			child(id, held);
		REQUIRE(waitpid(pid, &status, 0) == pid);
		REQUIRE(status == 0);
	}
	stop = true;
	for (int i = 0; busy && i < 3; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	// All is there still.
	struct ibv_sa_event *second = get_notice(channel, NULL, 64);
	REQUIRE(subject(second) == 2);
	REQUIRE(ibv_sa_ack_event(second) == 0 && ibv_sa_ack_event(held) == 0);
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
	ibv_sa_destroy_event_channel(noise);
	printf("good\n");
	return 0;
}
