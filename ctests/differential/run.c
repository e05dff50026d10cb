// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test: every function, with every answer that a provider may give.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "differential.h"

struct answer {
	long value;
	int err; // 0: the provider leaves errno alone
};

// A pointer to an object cannot be written down here.
#define AN_OBJECT 1

static const struct answer ints[] = {
	{ 0, 0 },       { 1, 0 },        { 5, 0 },          { -5, 0 },          { -1, EACCES },
	{ -1, 0 },      { EPERM, EPERM }, { EOPNOTSUPP, 0 }, { ENOSYS, ENOSYS }, { 0, EIO },
	{ INT32_MAX, 0 }, { INT32_MIN, 0 },
};
static const struct answer longs[] = {
	{ 0, 0 },  { 5, 0 },        { -5, 0 },          { -1, EACCES },
	{ 0, EIO }, { INT64_MAX, 0 }, { INT64_MIN, EPERM }, { 0x123456789aL, 0 },
};
static const struct answer unsigneds[] = {
	{ 0, 0 }, { 5, 0 }, { (long)0xfedcba9876543210UL, 0 }, { -1, EACCES }, { 0, EIO },
};
static const struct answer pointers[] = {
	{ AN_OBJECT, 0 }, { AN_OBJECT, EIO }, { 0, EACCES }, { 0, 5 }, { 0, 0 },
};
static const struct answer nothings[] = { { 0, 0 }, { 0, EIO } };

static unsigned int case_count;

static const struct answer *answers(enum ret ret, size_t *count)
{
#define GIVE(list)                                                                                 \
	do {                                                                                       \
		*count = sizeof(list) / sizeof((list)[0]);                                         \
		return list;                                                                       \
	} while (0)
	switch (ret) {
	case RET_VOID:
		GIVE(nothings);
	case RET_INT:
		GIVE(ints);
	case RET_LONG:
		GIVE(longs);
	case RET_UNSIGNED:
		GIVE(unsigneds);
	default:
		GIVE(pointers);
	}
}

static void say_result(const struct function *function, const struct result *result)
{
	const void *address = (const void *)result->value;
	const char *name;

	switch (function->ret) {
	case RET_VOID:
		say("  returns");
		break;
	case RET_INT:
	case RET_LONG:
		say("  returns %ld", result->value);
		break;
	case RET_UNSIGNED: {
		unsigned long value = (unsigned long)result->value;
		if (function->ret_size < 8)
			value &= (1UL << function->ret_size * 8) - 1;
		say("  returns 0x%lx", value);
		break;
	}
	case RET_STRING:
		say("  returns %s", address ? (const char *)address : "NULL");
		break;
	case RET_POINTER:
		name = address ? object_name(address) : "NULL";
		if (name)
			say("  returns %s", name);
		else
			say("  returns 0x%lx", (unsigned long)result->value);
		break;
	}
	say(" errno %d\n", result->err);
}

static void prepare(const struct function *function)
{
	// An unknown type is an event of no object; a NULL channel and no flags is a plain CQ.
	memset(buffers, 0, sizeof(buffers));
	if (!strcmp(function->name, "ibv_ack_async_event") ||
	    !strcmp(function->name, "ibv_get_async_event")) {
		struct ibv_async_event event = { .event_type = IBV_EVENT_PORT_ERR };
		event.element.port_num = 1;
		int index = function->outputs & 2 ? 1 : 0;
		memcpy(buffers[index], &event, sizeof(event));
	}
	if (function->cq_output)
		memcpy(buffers[function->cq_output], &objects.cq, sizeof(objects.cq));
}

static void say_buffers(const struct function *function)
{
	for (int i = 0; i < MAX_ARGS; i++) {
		uint32_t hash = 2166136261u;
		void *first;

		if (!(function->buffers & 1u << i))
			continue;
		memcpy(&first, buffers[i], sizeof(first));
		if (function->cq_output && function->cq_output == i) {
			const char *name = object_name(first);
			say("  arg%d holds %s\n", i, name ? name : "something else");
			continue;
		}
		if (i && first == buffers[i - 1]) {
			say("  arg%d holds the address of arg%d\n", i, i - 1);
			continue;
		}
		for (size_t byte = 0; byte < BUFFER_SIZE; byte++)
			hash = (hash ^ buffers[i][byte]) * 16777619u;
		say("  arg%d holds %08x\n", i, hash);
	}
}

static void call(const struct function *function)
{
	struct result result = { .value = 0 };

	function->call(&result);
	say_result(function, &result);
	say_buffers(function);
	case_count++;
}

static void tell(const struct function *function, const struct answer *answer)
{
	long value = answer->value;

	if (function->ret == RET_STRING && value)
		value = (long)"a string of the provider";
	else if (function->ret == RET_POINTER && value)
		value = function->success ? *(long *)function->success : (long)0xfedcba9876543210UL;
	scripted.reply(function->scripted, value, answer->err);
}

// What the function writes must reach the caller, and nothing else may be written.
static void run_outputs(const struct function *function, const struct answer *answer)
{
	unsigned char pattern[64];

	for (int i = 0; i < MAX_ARGS; i++) {
		if (!(function->outputs & 1u << i))
			continue;
		for (size_t byte = 0; byte < sizeof(pattern); byte++)
			pattern[byte] = (unsigned char)(0xa5 + 7 * byte);
		if (function->cq_output == i && i)
			memcpy(pattern, &objects.cq, sizeof(objects.cq));
		say(" writes to argument %d\n", i);
		prepare(function);
		tell(function, answer);
		scripted.output(function->scripted, i, pattern,
				function->cq_output == i ? sizeof(void *) : sizeof(pattern));
		call(function);
	}
}

// Inline functions look whether the context has the entry: not set, beyond the table's end, no such
// table.
static void run_missing(const struct function *function)
{
	struct verbs_context *context = verbs_get_ctx(objects.context);
	void **slot = (void **)((char *)context + function->member);
	void *entry = *slot;

	say(" entry not set\n");
	prepare(function);
	*slot = NULL;
	call(function);
	*slot = entry;
	if (function->in_ops)
		return;

	say(" entry beyond the table\n");
	prepare(function);
	size_t size = context->sz;
	context->sz = sizeof(*context) - function->member - 1;
	call(function);
	context->sz = size;

	say(" no table\n");
	prepare(function);
	objects.context->abi_compat = NULL;
	call(function);
	objects.context->abi_compat = __VERBS_ABI_IS_EXTENDED;
}

static void run(const struct function *function)
{
	size_t count;
	const struct answer *answer = answers(function->ret, &count);

	say("%s %s\n", function->name, function->node);
	for (size_t i = 0; i < count; i++) {
		say(" told %ld errno %d\n", answer[i].value, answer[i].err);
		prepare(function);
		tell(function, &answer[i]);
		call(function);
		if (i < 3)
			run_outputs(function, &answer[i]);
	}
	if (function->member)
		run_missing(function);
	scripted.behave(function->scripted);
}

void *offered(const char *name)
{
	for (unsigned int i = 0; i < function_count; i++)
		if (!strcmp(functions[i].name, name) && functions[i].pointer)
			return *functions[i].pointer;
	die(name, __FILE__, __LINE__);
}

// Where a library offers an inline function as a symbol, the symbol is called.
void use_exported(unsigned int *own, unsigned int *inlines)
{
	*own = *inlines = 0;
	for (unsigned int i = 0; i < function_count; i++) {
		const struct function *function = &functions[i];

		if (!function->pointer)
			continue;
		void *symbol = dlvsym(RTLD_DEFAULT, function->name, "IBV_SA_1.0");
		if (symbol)
			*function->pointer = symbol;
		*own += symbol != NULL;
		*inlines += symbol == NULL;
	}
}

void run_all(void)
{
	unsigned int own, inlines;

	use_exported(&own, &inlines);
	for (unsigned int i = 0; i < function_count; i++) {
		const struct function *function = &functions[i];

		if (function->scripted)
			run(function);
		else if (*function->pointer)
			MUST(function->ours_alone);
	}
	fprintf(stderr, "%u functions, %u cases, %u of IBV_SA_1.0, %u inline\n", function_count,
		case_count, own, inlines);
}

// ---- absent functions -----------------------------------------------------------------------

static bool fails_right(const struct function *function, const struct result *result)
{
	if (result->err != EOPNOTSUPP && result->err != ENOSYS)
		return false;
	switch (function->absent) {
	case ABSENT_NULL:
	case ABSENT_ZERO:
		return result->value == 0;
	case ABSENT_ERRNO:
		return result->value == result->err;
	case ABSENT_MINUS1:
		return result->value == -1;
	case ABSENT_NEGATED:
		return result->value == -result->err;
	case ABSENT_UNKNOWN:
		return result->value && !strcmp((const char *)result->value, "unknown");
	case ABSENT_VOID:
		return true;
	}
	return false;
}

static int minor_of(const char *node)
{
	return atoi(node + strlen("IBVERBS_1."));
}

// The library has the nodes up to this one, or "none" of them, does not exist ("missing") or was
// "refused". Each function that it lacks must fail as the table says; that there are no devices is
// ENOSYS when there is no library. Says what is wrong, and gives how many are.
int run_absent(const char *until)
{
	int newest = strncmp(until, "IBVERBS_1.", 10) ? -1 : minor_of(until);
	bool missing = !strcmp(until, "missing");
	bool refused = !strcmp(until, "refused");
	int wrong = 0, tried = 0;

	objects_pretend();
	for (unsigned int i = 0; i < function_count; i++) {
		const struct function *function = &functions[i];
		struct result result = { .value = 0 };

		if (function->pointer || minor_of(function->node) <= newest)
			continue;
		prepare(function);
		// Twice: the second time the search has been made before.
		for (int time = 0; time < 2; time++) {
			function->call(&result);
			int want = EOPNOTSUPP;
			if (missing && !strcmp(function->name, "ibv_get_device_list"))
				want = ENOSYS;
			else if (missing || refused)
				want = result.err;
			tried++;
			if (fails_right(function, &result) && result.err == want)
				continue;
			say("%s: returned %ld errno %d\n", function->name, result.value, result.err);
			wrong++;
		}
	}
	say("%d calls, %d wrong\n", tried, wrong);
	return wrong;
}

static void run_scenarios(void)
{
	scenario_events();
	scenario_completions();
	scenario_polls();
	scenario_extended();
	scenario_contexts();
	MUST(scripted.alive() == 0);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (unsigned int i = 0; i < function_count; i++)
			say("%s@@%s\n", functions[i].name, functions[i].node);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "absent"))
		return run_absent(argv[2]) ? 1 : 0;

	control_open();
	if (argc == 2 && !strcmp(argv[1], "scenarios")) {
		unsigned int own, inlines;

		use_exported(&own, &inlines);
		run_scenarios();
		return 0;
	}
	objects_open();
	if (argc == 2 && !strcmp(argv[1], "threads")) {
		unsigned int own, inlines;

		use_exported(&own, &inlines);
		run_threads();
		return 0;
	}
	run_all();
	objects_close();
	run_scenarios();
	return 0;
}
