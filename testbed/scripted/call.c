// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The scripted provider, a test double for libibverbs: what every call goes through. It is counted,
// written to the trace, and answered if the test said how.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define MAX_NAMES 4096

struct name {
	const void *address;
	const char *name; // NULL: named after its kind and number
	const char *kind;
	unsigned int number;
};

static pthread_mutex_t name_lock = PTHREAD_MUTEX_INITIALIZER;
static struct name names[MAX_NAMES];
static unsigned int name_count;

static pthread_once_t trace_once = PTHREAD_ONCE_INIT;
static int trace_fd = -1;

static atomic_int alive;

static struct scripted_function *find(const char *function)
{
	for (unsigned int i = 0; i < scripted_function_count; i++)
		if (!strcmp(scripted_functions[i].name, function))
			return &scripted_functions[i];
	fprintf(stderr, "scripted provider: there is no function '%s'\n", function);
	abort();
}

void scripted_reply(const char *function, long value, int err)
{
	struct scripted_function *f = find(function);

	f->value = value;
	f->err = err;
	f->output_size = 0;
	atomic_store(&f->told, true);
}

void scripted_output(const char *function, int argument, const void *bytes, size_t size)
{
	struct scripted_function *f = find(function);

	if (size > sizeof(f->output))
		abort();
	memcpy(f->output, bytes, size);
	f->output_argument = argument;
	f->output_size = size;
}

void scripted_delay(const char *function, int milliseconds)
{
	atomic_store(&find(function)->delay_ms, milliseconds);
}

// Time in the kernel, where no thread is cancelled.
static void pass_time(int milliseconds)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	usleep((useconds_t)milliseconds * 1000);
	pthread_setcancelstate(state, NULL);
}

void scripted_behave(const char *function)
{
	atomic_store(&find(function)->told, false);
	atomic_store(&find(function)->delay_ms, 0);
}

void scripted_reset(void)
{
	for (unsigned int i = 0; i < scripted_function_count; i++) {
		atomic_store(&scripted_functions[i].told, false);
		atomic_store(&scripted_functions[i].delay_ms, 0);
		atomic_store(&scripted_functions[i].calls, 0);
	}
}

unsigned long scripted_calls(const char *function)
{
	return atomic_load(&find(function)->calls);
}

// ---- names ----------------------------------------------------------------------------------

static struct name *name_slot(const void *address)
{
	for (unsigned int i = 0; i < name_count; i++)
		if (names[i].address == address)
			return &names[i];
	for (unsigned int i = 0; i < name_count; i++)
		if (!names[i].address)
			return &names[i];
	return name_count < MAX_NAMES ? &names[name_count++] : NULL;
}

void scripted_name(const void *address, const char *name)
{
	pthread_mutex_lock(&name_lock);
	struct name *slot = name_slot(address);
	if (slot)
		*slot = (struct name){ .address = name ? address : NULL, .name = name };
	pthread_mutex_unlock(&name_lock);
}

// The kinds that scripted_alive() counts have a capital letter.
static bool is_counted(const char *kind)
{
	return kind[0] >= 'A' && kind[0] <= 'Z';
}

static void lock_names(void)
{
	pthread_mutex_lock(&name_lock);
}

static void unlock_names(void)
{
	pthread_mutex_unlock(&name_lock);
}

// A child of fork(3) may be born while another thread names an object.
__attribute__((constructor)) static void keep_forks_out(void)
{
	pthread_atfork(lock_names, unlock_names, unlock_names);
}

void scripted_made(const void *object, const char *kind)
{
	static struct {
		const char *kind;
		unsigned int count;
	} kinds[32];
	unsigned int number = 0;

	pthread_mutex_lock(&name_lock);
	for (unsigned int i = 0; i < 32; i++) {
		if (!kinds[i].kind)
			kinds[i].kind = kind;
		if (!strcmp(kinds[i].kind, kind)) {
			number = ++kinds[i].count;
			break;
		}
	}
	struct name *slot = name_slot(object);
	if (slot)
		*slot = (struct name){ .address = object, .kind = kind, .number = number };
	pthread_mutex_unlock(&name_lock);
	if (is_counted(kind))
		atomic_fetch_add(&alive, 1);
}

void scripted_unmade(const void *object, const char *kind)
{
	pthread_mutex_lock(&name_lock);
	for (unsigned int i = 0; i < name_count; i++)
		if (names[i].address == object)
			names[i].address = NULL;
	pthread_mutex_unlock(&name_lock);
	if (is_counted(kind))
		atomic_fetch_sub(&alive, 1);
}

int scripted_alive(void)
{
	return atomic_load(&alive);
}

// ---- trace ----------------------------------------------------------------------------------

struct line {
	char text[1024];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->length;
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line->text + line->length, room, format, args);
	va_end(args);
	if (n > 0)
		line->length += (size_t)n < room ? (size_t)n : room - 1;
}

static void add_pointer(struct line *line, uint64_t value)
{
	const void *address = (const void *)(uintptr_t)value;

	if (!value) {
		add(line, "NULL");
		return;
	}
	pthread_mutex_lock(&name_lock);
	for (unsigned int i = 0; i < name_count; i++) {
		if (names[i].address != address)
			continue;
		if (names[i].name)
			add(line, "%s", names[i].name);
		else
			add(line, "%s#%u", names[i].kind, names[i].number);
		pthread_mutex_unlock(&name_lock);
		return;
	}
	pthread_mutex_unlock(&name_lock);
	// Where no user address can be, the value was made up by the test and is the same each run.
	if (value >> 47 || value < 4096)
		add(line, "0x%llx", (unsigned long long)value);
	else
		add(line, "ptr");
}

static void trace_open(void)
{
	const char *where = getenv("SCRIPTED_TRACE");

	if (!where || !*where)
		return;
	if (!strncmp(where, "fd:", 3))
		trace_fd = atoi(where + 3);
	else
		trace_fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (trace_fd < 0) {
		fprintf(stderr, "scripted provider: cannot write the trace to '%s'\n", where);
		abort();
	}
}

static void trace(const struct scripted_function *function, const struct scripted_arg *args,
		  int nargs)
{
	struct line line = { .length = 0 };

	add(&line, "%s(", function->name);
	for (int i = 0; i < nargs; i++) {
		uint64_t value = args[i].value;

		if (i)
			add(&line, ", ");
		if (args[i].size < 8)
			value &= (1ULL << args[i].size * 8) - 1;
		if (args[i].pointer)
			add_pointer(&line, value);
		else
			add(&line, "0x%llx", (unsigned long long)value);
	}
	add(&line, ")\n");

	// The trace must not be a cancellation point that the real function does not have.
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (write(trace_fd, line.text, line.length) != (ssize_t)line.length)
		abort();
	pthread_setcancelstate(state, NULL);
}

bool scripted_called(struct scripted_function *function, const struct scripted_arg *args, int nargs,
		     long *value)
{
	int before = errno;

	pthread_once(&trace_once, trace_open);
	if (trace_fd >= 0)
		trace(function, args, nargs);
	// After the trace: who sees the count may write the next line.
	atomic_fetch_add(&function->calls, 1);
	int delay = atomic_load_explicit(&function->delay_ms, memory_order_relaxed);
	if (delay)
		pass_time(delay);
	errno = before;
	if (!atomic_load_explicit(&function->told, memory_order_acquire))
		return false;

	if (function->output_size)
		memcpy((void *)(uintptr_t)args[function->output_argument].value, function->output,
		       function->output_size);
	*value = function->value;
	if (function->err)
		errno = function->err;
	return true;
}
