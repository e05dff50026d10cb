// SPDX-License-Identifier: MIT OR Apache-2.0
//
// steps: polls in single steps. After each instruction of libibv_sa in an empty poll, a good one and one that fails,
// the stack is looked at: the poll's caller must be there. Prints how many instructions that were.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <ucontext.h>

#include "completions.h"

#define CALLER __attribute__((noinline, section("callers")))
extern const char __start_callers[], __stop_callers[];

enum { MOST = 3000 };

static struct {
	const char *from;
	const char *to;
} library;
static volatile int stepped, lost;
static volatile uintptr_t first_lost;

static void handle(int number, siginfo_t *info, void *argument)
{
	ucontext_t *at = argument;
	const char *ip = (const char *)at->uc_mcontext.gregs[REG_RIP];
	void *frames[64];

	(void)number, (void)info;
	if (stepped >= MOST)
		at->uc_mcontext.gregs[REG_EFL] &= ~0x100LL; // enough
	if (ip < library.from || ip >= library.to || stepped >= MOST)
		return;
	stepped++;
	int n = backtrace(frames, 64);
	for (int i = 0; i < n; i++)
		if ((char *)frames[i] >= __start_callers && (char *)frames[i] < __stop_callers)
			return;
	if (!lost++)
		first_lost = (uintptr_t)(ip - library.from);
}

static void single_steps(bool on)
{
	if (on)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

CALLER static int poll_it(struct ibv_cq *cq, struct ibv_wc *wc)
{
	single_steps(true);
	int n = ibv_poll_cq(cq, 20, wc);
	single_steps(false);
	return n;
}

CALLER static int start_it(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };

	single_steps(true);
	int result = ibv_start_poll(cq, &attr);
	single_steps(false);
	return result;
}

static void say_steps(const char *key)
{
	say("%s=%d", key, stepped);
	if (lost)
		say("lost=%d of them, the first at %#lx", lost, (unsigned long)first_lost);
	stepped = lost = 0;
}

// Where a library is loaded that has this function.
static void find_library(uintptr_t function)
{
	char line[512], name[512] = "", wanted[512];
	Dl_info info;
	FILE *maps = fopen("/proc/self/maps", "re");

	REQUIRE(maps && dladdr((void *)function, &info));
	REQUIRE(realpath(info.dli_fname, wanted));
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %511s", &from, &to, name) == 3 && !strcmp(name, wanted)) {
			library.from = library.from ? library.from : (char *)from;
			library.to = (char *)to;
		}
	}
	fclose(maps);
	REQUIRE(library.from);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO };
	struct thing t = make("qp");
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t.context, &attr);
	struct ibv_wc in[20], out[20];
	void *frames[4];

	REQUIRE(cq);
	backtrace(frames, 4);
	find_library((uintptr_t)t.context->ops.poll_cq);
	REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
	REQUIRE(poll_it(t.cq, out) == 0);
	say_steps("empty");
	for (int i = 0; i < 20; i++)
		in[i] = completion(IBV_WC_SUCCESS, t.qp->qp_num, 1, 0);
	REQUIRE(scripted_wc(t.cq, in, 19) == 0);
	REQUIRE(poll_it(t.cq, out) == 19);
	say_steps("good");
	REQUIRE(start_it(cq) == ENOENT);
	say_steps("start");
	in[0] = completion(IBV_WC_RETRY_EXC_ERR, t.qp->qp_num, 1, 0xff);
	REQUIRE(scripted_wc(t.cq, in, 2) == 0);
	REQUIRE(poll_it(t.cq, out) == 2);
	say_steps("failed");
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
