// SPDX-License-Identifier: MIT OR Apache-2.0
//
// helper FORM: every thread of the program blocks all signals while one of them waits in a destroy. Prints what any
// further threads are (stranger=NAME SIGNALS-NOT-BLOCKED), whether a signal to the process stays pending, whether
// the program's handler ran, and whether the strangers are gone when the destroy is over.

#include <dirent.h>

#include "ledger.h"

static struct thing t;
static pid_t waiter;
static volatile bool may_end;
static volatile int handled;

static void *wait_in_destroy(void *argument)
{
	waiter = (pid_t)syscall(SYS_gettid);
	i_am_about_to_block();
	destroy_and_say(&t);
	while (!may_end)
		sleep_ms(1);
	return argument;
}

static void count(int signal)
{
	(void)signal;
	handled++;
}

static void status_of(pid_t tid, const char *field, char *value, size_t size)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	FILE *file = fopen(path, "re");
	*value = 0;
	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, field, strlen(field)))
			snprintf(value, size, "%.*s", (int)strcspn(line + strlen(field) + 2, "\n"),
				 line + strlen(field) + 2);
	fclose(file);
}

// How many threads are neither the main one nor the waiter.
static int strangers(bool tell)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	REQUIRE(dir);
	while ((entry = readdir(dir))) {
		pid_t tid = atoi(entry->d_name);
		char name[64], blocked[64];

		if (tid == 0 || tid == getpid() || tid == waiter)
			continue;
		status_of(tid, "Name", name, sizeof(name));
		if (!*name)
			continue; // it ended just now
		n++;
		status_of(tid, "SigBlk", blocked, sizeof(blocked));
		// SIGKILL, SIGSTOP and the two that glibc keeps for itself cannot be blocked.
		unsigned long long open = ~strtoull(blocked, NULL, 16);
		open &= ~(1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1) | 1ULL << 31 | 1ULL << 32);
		if (tell)
			say("stranger=%s %llx", name, open);
	}
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	sigset_t all, pending;

	REQUIRE(argc == 2);
	t = make(argv[1]);
	struct ibv_async_event event = inject_and_take(&t, 0);
	sigfillset(&all);
	REQUIRE(signal(SIGUSR1, count) != SIG_ERR);
	REQUIRE(signal(SIGALRM, count) != SIG_ERR);
	REQUIRE(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	REQUIRE(pthread_create(&thread, NULL, wait_in_destroy, NULL) == 0);
	wait_until_blocked();
	sleep_ms(1200);
	say("strangers=%d", strangers(true));
	kill(getpid(), SIGUSR1);
	alarm(1);
	sleep_ms(1200);
	REQUIRE(sigpending(&pending) == 0);
	say("pending=%d %d", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGALRM));
	say("handled=%d", handled);
	ack(&t, &event);
	while (!scripted_calls("ibv_ack_async_event") && !scripted_calls("ibv_ack_cq_events"))
		sleep_ms(1);
	// The destroy is over when the object is.
	while (scripted_alive() > (t.cq ? 3 : 2))
		sleep_ms(1);
	sleep_ms(50);
	say("strangers_after=%d", strangers(false));
	may_end = true;
	REQUIRE(pthread_join(thread, NULL) == 0);
	REQUIRE(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
	say("handled_at_last=%d", handled);
	close_all(&t);
	return 0;
}
