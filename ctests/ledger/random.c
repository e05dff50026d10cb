// SPDX-License-Identifier: MIT OR Apache-2.0
//
// random MODE SEED COUNT: programs made by chance. For each seed, from SEED on, four threads queue, get, acknowledge
// (right, before the get, twice, several at once) and destroy objects of all kinds, in any order. A model of
// libibverbs says of each destroy whether it comes back: it does when as many acks were given as events were read.
//   alone    the program runs with libibverbs alone: exactly those destroys come back that the model says
//   protect  libibverbs alone hangs with too many acks; here those destroys come back as well
//   rescue   some events are never acknowledged, or only after the destroy: all destroys come back
//
// An ack that comes before its event lends: whoever would acknowledge next does not. So no ack can come after
// the destroy, where it would touch freed memory with libibverbs alone.

#include <sys/resource.h>

#include "ledger.h"

enum { WORKERS = 4, MOST_OBJECTS = 10, MOST_PENDING = 512, STEPS = 60 };

// libibverbs counts the two sorts of a CQ's events apart.
enum sort { MAIN, ASYNC_OF_COMP, SORTS };

struct book {
	int injected, reads, acks, lent, pending;
	bool has_lent;
};

struct object {
	struct thing t;
	pthread_mutex_t lock; // over all below
	struct book books[SORTS];
	bool begun;
	atomic_bool done;
	int ret;
	double waited;
};

struct pending {
	struct object *object;
	enum sort sort;
	struct ibv_async_event event;
};

struct worker {
	uint64_t random;
	struct pending pending[MOST_PENDING];
	int pending_count;
	struct pending forgotten[MOST_PENDING];
	int forgotten_count;
};

static const char *const forms[] = {
	"qp", "qp_ex", "open_qp", "cq", "cq_ex", "comp", "comp_ex", "srq", "srq_ex", "wq", "comp",
};

static const char *mode;
static bool alone, rescue;
static struct ibv_context *context;
static struct object *objects; // of this round; not freed while a thread hangs in a destroy
static int object_count;
static struct worker workers[WORKERS];
static pthread_barrier_t stepped;
static atomic_bool all_begun;
static int slow, over, lent_acks;

static unsigned int below(struct worker *w, unsigned int n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (unsigned int)(w->random >> 33) % n;
}

static void *destroy_object(void *argument)
{
	struct object *o = argument;
	double start = now();

	o->ret = destroy(&o->t);
	o->waited = now() - start;
	atomic_store(&o->done, true);
	return NULL;
}

static void begin_destroy(struct object *o)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_mutex_lock(&o->lock);
	// ibv_get_cq_event looks into the CQ after the read: a lent ack must not let it go before.
	const struct book *main_book = &o->books[MAIN];
	bool too_early = o->t.kind == COMP && main_book->has_lent &&
			 main_book->reads != main_book->injected;
	if (!o->begun && !too_early) {
		o->begun = true;
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		pthread_attr_setstacksize(&attr, 128 << 10);
		REQUIRE(pthread_create(&thread, &attr, destroy_object, o) == 0);
		pthread_attr_destroy(&attr);
	}
	pthread_mutex_unlock(&o->lock);
}

static enum sort any_sort(struct worker *w, const struct object *o)
{
	return o->t.kind == COMP && !below(w, 4) ? ASYNC_OF_COMP : MAIN;
}

static void inject_some(struct worker *w, struct object *o)
{
	pthread_mutex_lock(&o->lock);
	for (unsigned int n = 1 + below(w, 3); n && !o->begun; n--) {
		enum sort sort = any_sort(w, o);

		if (sort == ASYNC_OF_COMP)
			REQUIRE(scripted_async(context, IBV_EVENT_CQ_ERR, o->t.address) == 0);
		else
			inject(&o->t, (int)below(w, 8));
		o->books[sort].injected++;
	}
	pthread_mutex_unlock(&o->lock);
}

// The completion events of one call at once.
static void give_acks(struct object *o, enum sort sort, struct ibv_async_event event, int n)
{
	o->books[sort].acks += n;
	if (o->t.kind == COMP && sort == MAIN) {
		ibv_ack_cq_events(o->t.its_cq, (unsigned int)n);
		return;
	}
	while (n--)
		ibv_ack_async_event(&event);
}

static void lend_acks(struct worker *w, struct object *o)
{
	pthread_mutex_lock(&o->lock);
	if (!o->begun) {
		enum sort sort = any_sort(w, o);
		int n = 1 + (int)below(w, 3);

		give_acks(o, sort, event_of(&o->t, (int)below(w, 8)), n);
		o->books[sort].lent += n;
		o->books[sort].has_lent = true;
	}
	pthread_mutex_unlock(&o->lock);
}

static struct object *object_at(const void *address)
{
	for (int i = 0; i < object_count; i++)
		if (objects[i].t.address == address)
			return &objects[i];
	REQUIRE(!"an object of this round");
	return NULL;
}

static bool get_one(struct worker *w, const struct object *from)
{
	struct pending *pending = &w->pending[w->pending_count];
	struct ibv_cq *cq;
	void *cq_context;

	if (w->pending_count == MOST_PENDING)
		return false;
	pending->sort = MAIN;
	if (from->t.kind == COMP && below(w, 4)) {
		if (ibv_get_cq_event(from->t.channel, &cq, &cq_context))
			return false;
		pending->object = object_at(cq);
	} else {
		if (ibv_get_async_event(context, &pending->event))
			return false;
		pending->object = object_at(pending->event.element.qp);
		if (pending->object->t.kind == COMP)
			pending->sort = ASYNC_OF_COMP;
	}
	w->pending_count++;
	pthread_mutex_lock(&pending->object->lock);
	pending->object->books[pending->sort].reads++;
	pending->object->books[pending->sort].pending++;
	pthread_mutex_unlock(&pending->object->lock);
	return true;
}

// One of the events that this thread holds; of a CQ's, all of that CQ at once sometimes.
static void ack_one(struct worker *w)
{
	if (!w->pending_count)
		return;
	int at = (int)below(w, (unsigned int)w->pending_count);
	struct pending chosen = w->pending[at];
	struct object *o = chosen.object;
	struct book *book = &o->books[chosen.sort];

	w->pending[at] = w->pending[--w->pending_count];
	pthread_mutex_lock(&o->lock);
	int n = 1;
	if (o->t.kind == COMP && below(w, 2)) {
		for (int i = w->pending_count - 1; i >= 0; i--) {
			if (w->pending[i].object == o && w->pending[i].sort == chosen.sort) {
				w->pending[i] = w->pending[--w->pending_count];
				n++;
			}
		}
	}
	book->pending -= n;
	if (rescue && !below(w, 4)) {
		for (; n; n--)
			w->forgotten[w->forgotten_count++] = chosen;
	}
	int skipped = n < book->lent ? n : book->lent;
	book->lent -= skipped;
	if (n > skipped)
		give_acks(o, chosen.sort, chosen.event, n - skipped);
	pthread_mutex_unlock(&o->lock);
}

static void *work(void *argument)
{
	struct worker *w = argument;

	for (int i = 0; i < STEPS; i++) {
		struct object *o = &objects[below(w, (unsigned int)object_count)];
		unsigned int what = below(w, 100);

		if (what < 30)
			inject_some(w, o);
		else if (what < 34 && !rescue)
			lend_acks(w, o);
		else if (what < 64)
			get_one(w, o);
		else if (what < 97)
			ack_one(w);
		else
			begin_destroy(o);
	}
	pthread_barrier_wait(&stepped);
	for (bool last = false; !last;) {
		last = atomic_load(&all_begun);
		for (int i = 0; i < object_count; i++)
			while (get_one(w, &objects[i]) && below(w, 4))
				;
		while (w->pending_count && (last || below(w, 3)))
			ack_one(w);
		if (last)
			for (int i = 0; i < object_count; i++)
				last &= !get_one(w, &objects[i]);
		while (w->pending_count && last)
			ack_one(w);
	}
	return NULL;
}

static void make_round(struct worker *chance)
{
	int channel_of = -1;

	context = open_first();
	REQUIRE(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
	object_count = 4 + (int)below(chance, MOST_OBJECTS - 3);
	REQUIRE(objects = calloc(MOST_OBJECTS, sizeof(*objects)));
	for (int i = 0; i < object_count; i++) {
		struct object *o = &objects[i];

		pthread_mutex_init(&o->lock, NULL);
		o->t = make_on(context, forms[below(chance, sizeof(forms) / sizeof(forms[0]))]);
		if (o->t.kind != COMP)
			continue;
		REQUIRE(fcntl(o->t.channel->fd, F_SETFL, O_NONBLOCK) == 0);
		// Two CQs share a channel now and then.
		if (channel_of >= 0 && below(chance, 2)) {
			struct ibv_comp_channel *own = o->t.channel;

			REQUIRE(ibv_destroy_cq(o->t.its_cq) == 0);
			REQUIRE(ibv_destroy_comp_channel(own) == 0);
			o->t.channel = objects[channel_of].t.channel;
			create(&o->t);
		} else {
			channel_of = i;
		}
	}
}

static void fail(uint64_t seed, int round, const struct object *o, const char *what)
{
	say("seed %llu, round %d, %s: %s: done %d, ret %d, waited %.2f", (unsigned long long)seed, round,
	    o->t.form, what, atomic_load(&o->done), o->ret, o->waited);
	for (int i = 0; i < SORTS; i++)
		say("  reads %d, acks %d, lent %d", o->books[i].reads, o->books[i].acks,
		    o->books[i].lent);
	_exit(1);
}

static bool is_balanced(const struct object *o)
{
	return o->books[MAIN].acks == o->books[MAIN].reads &&
	       o->books[ASYNC_OF_COMP].acks == o->books[ASYNC_OF_COMP].reads;
}

// What came of the destroys; true if all are over.
static bool judge(uint64_t seed, int round)
{
	// All acks are given by now.
	double start = now(), end = start + 10;
	bool all = true;

	for (int i = 0; i < object_count; i++) {
		struct object *o = &objects[i];
		bool comes_back = alone ? is_balanced(o) : true;

		while (comes_back && !atomic_load(&o->done) && now() < end)
			usleep(100);
		if (comes_back && !atomic_load(&o->done))
			fail(seed, round, o, "the destroy does not come back");
		if (comes_back && o->ret)
			fail(seed, round, o, "the destroy failed");
		over += !rescue && !is_balanced(o);
		lent_acks += o->books[MAIN].has_lent || o->books[ASYNC_OF_COMP].has_lent;
		all &= comes_back;
	}
	if (!all)
		usleep(3000);
	for (int i = 0; i < object_count; i++) {
		if (alone && !is_balanced(&objects[i]) && atomic_load(&objects[i].done))
			fail(seed, round, &objects[i], "the destroy came back");
	}
	slow += now() - start > 3;
	return all;
}

// The program's acks of events that were acknowledged for it: libibverbs must not see them.
static void ack_too_late(void)
{
	unsigned long before = scripted_calls("ibv_ack_async_event") + scripted_calls("ibv_ack_cq_events");

	for (int i = 0; i < WORKERS; i++) {
		struct worker *w = &workers[i];

		while (w->forgotten_count) {
			struct pending *p = &w->forgotten[--w->forgotten_count];

			if (p->object->t.kind == COMP && p->sort == MAIN)
				ibv_ack_cq_events(p->object->t.its_cq, 1);
			else
				ibv_ack_async_event(&p->event);
		}
	}
	REQUIRE(scripted_calls("ibv_ack_async_event") + scripted_calls("ibv_ack_cq_events") == before);
}

static void clean_up(void)
{
	for (int i = 0; i < object_count; i++) {
		struct thing *t = &objects[i].t;

		if (t->cq)
			REQUIRE(ibv_destroy_cq(t->cq) == 0);
		REQUIRE(ibv_dealloc_pd(t->pd) == 0);
		for (int j = 0; j < i; j++)
			if (objects[j].t.channel == t->channel)
				t->channel = NULL;
		if (t->channel)
			REQUIRE(ibv_destroy_comp_channel(t->channel) == 0);
		pthread_mutex_destroy(&objects[i].lock);
	}
	REQUIRE(ibv_close_device(context) == 0);
	free(objects);
}

static void one_seed(uint64_t seed, int round)
{
	pthread_t threads[WORKERS];

	for (int i = 0; i < WORKERS; i++) {
		memset(&workers[i], 0, sizeof(workers[i]));
		workers[i].random = (seed * 64 + (uint64_t)round * 8 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15ULL;
		for (int j = 0; j < 8; j++)
			below(&workers[i], 2);
	}
	make_round(&workers[0]);
	atomic_store(&all_begun, false);
	pthread_barrier_init(&stepped, NULL, WORKERS + 1);
	for (int i = 0; i < WORKERS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	pthread_barrier_wait(&stepped);
	for (int i = 0; i < object_count;) {
		begin_destroy(&objects[i]);
		pthread_mutex_lock(&objects[i].lock);
		bool begun = objects[i].begun;
		pthread_mutex_unlock(&objects[i].lock);
		i += begun;
		if (!begun)
			usleep(100);
	}
	atomic_store(&all_begun, true);
	for (int i = 0; i < WORKERS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	pthread_barrier_destroy(&stepped);
	if (!judge(seed, round))
		return; // threads stay behind in destroys
	if (rescue)
		ack_too_late();
	clean_up();
}

int main(int argc, char **argv)
{
	struct rlimit limit;

	REQUIRE(argc == 4);
	// What hangs without the library leaves its descriptors open.
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	mode = argv[1];
	alone = !strcmp(mode, "alone");
	rescue = !strcmp(mode, "rescue");
	uint64_t first = strtoull(argv[2], NULL, 10);
	int count = atoi(argv[3]);

	for (int i = 0; i < count; i++)
		for (int round = 0; round < (rescue ? 1 : 3); round++)
			one_seed(first + (uint64_t)i, round);
	say("seeds=%d", count);
	say("over=%d", over);
	say("lent=%d", lent_acks);
	say("slow=%d", slow);
	_exit(0);
}
