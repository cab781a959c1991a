/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matrix of faults: each kind of memory (memory.h) as the source and the
 * destination of puts and gets, single copies and through the ring. Contents
 * are verified, by the side that has them; an error has to name an address that
 * is in the way; and both processes are well afterwards.
 *
 * The cells' names are read by tests/matrix-table.
 */
#include "pair.h"

#include <unistd.h>

#include "machine.h"
#include "memory.h"

enum role { ROLE_SOURCE, ROLE_DESTINATION, ROLE_BOTH };

struct cell {
	const struct memory_kind *kind;
	enum role role;
	bool put, ring;
	char name[120];
};

/* What the test asks a side to do with its memory. */
enum wish { WISH_OPEN = 1, WISH_DISTURB, WISH_SETTLE, WISH_CHECK, WISH_CHECK_AROUND, WISH_CLOSE };

struct buffer {
	enum pf_side side;
	const struct memory_kind *kind;
	bool source;
	size_t length, offset;
	uint64_t seed;
	/* From the side that has it. */
	uint64_t start, bad;
};

/* Of this process. */
static struct memory memory;
static bool is_open;

static pf_context *context_here;
static pf_pager *pager;

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	const struct memory *paged = arg;

	memcpy(page, (uint8_t *)paged->other + (address - (uint64_t)(uintptr_t)paged->map), length);
	return PF_OK;
}

static const char *start_pager(struct memory *paged)
{
	int status = pf_pager_register(context_here, paged->map, paged->size, supply, paged,
				       &pager);

	return status == PF_OK ? NULL : pf_strerror(status);
}

static void stop_pager(struct memory *paged)
{
	if (pager)
		pf_pager_unregister(pager);
	pager = NULL;
}

static const struct memory_pager engine_pager = { start_pager, stop_pager };

static const char *grant(enum wish wish, const struct memory_kind *kind, bool source, size_t length,
			 size_t offset, uint64_t seed)
{
	const char *error = NULL;

	switch (wish) {
	case WISH_OPEN:
		error = memory_open(&memory, kind, source, length, offset, seed);
		is_open = !error;
		break;
	case WISH_DISTURB:
		error = memory_disturb(&memory);
		break;
	case WISH_SETTLE:
		error = memory_settle(&memory);
		break;
	case WISH_CHECK:
		error = memory_check(&memory, kind, memory_position(offset), seed);
		break;
	case WISH_CHECK_AROUND:
		error = memory_check_around(&memory);
		break;
	case WISH_CLOSE:
		memory_close(&memory);
		is_open = false;
		break;
	}
	return error;
}

/* The test's values: 0 counts its wishes, 1.. their arguments. The partner's: start, bad, turns. */
static void serve(struct pair *me)
{
	unsigned done = 0;
	const char *error;

	context_here = me->context;
	while (pair_progress(me)) {
		if (is_open)
			atomic_store(pair_value(me, 1, 2), atomic_load(&memory.turns));
		if (atomic_load(pair_value(me, 0, 0)) == done)
			continue;
		error = grant(
			(enum wish)atomic_load(pair_value(me, 0, 1)),
			(const struct memory_kind *)(uintptr_t)atomic_load(pair_value(me, 0, 2)),
			atomic_load(pair_value(me, 0, 3)), atomic_load(pair_value(me, 0, 4)),
			atomic_load(pair_value(me, 0, 5)), atomic_load(pair_value(me, 0, 6)));
		if (error)
			pair_fail(me, __FILE__, __LINE__, error);
		atomic_store(pair_value(me, 1, 0), remote_address(memory.start));
		atomic_store(pair_value(me, 1, 1), memory.bad);
		pair_say(me, ++done);
	}
}

static unsigned wishes;

/* Of one buffer, by the side that has it; about another one for WISH_CHECK. */
static void ask(struct pair *pair, enum wish wish, struct buffer *buffer,
		const struct buffer *about)
{
	const char *error;

	if (buffer->side == PF_SIDE_LOCAL) {
		error = grant(wish, about->kind, about->source, about->length, about->offset,
			      about->seed);
		if (error)
			fail_msg("%s", error);
		buffer->start = remote_address(memory.start);
		buffer->bad = memory.bad;
		return;
	}
	atomic_store(pair_value(pair, 0, 1), (uint64_t)wish);
	atomic_store(pair_value(pair, 0, 2), (uint64_t)(uintptr_t)about->kind);
	atomic_store(pair_value(pair, 0, 3), about->source);
	atomic_store(pair_value(pair, 0, 4), about->length);
	atomic_store(pair_value(pair, 0, 5), about->offset);
	atomic_store(pair_value(pair, 0, 6), about->seed);
	atomic_store(pair_value(pair, 0, 0), ++wishes);
	pair_await(pair, 1, wishes);
	buffer->start = atomic_load(pair_value(pair, 1, 0));
	buffer->bad = atomic_load(pair_value(pair, 1, 1));
}

static enum outcome outcome_of(const struct buffer *buffer)
{
	return buffer->source ? buffer->kind->source : buffer->kind->destination;
}

/* What it held is readable and writable again once it is settled. */
static bool heals(const struct buffer *buffer)
{
	return outcome_of(buffer) == OUTCOME_MOVES || outcome_of(buffer) == OUTCOME_EITHER ||
	       buffer->kind->settle;
}

static uint64_t turns(struct pair *pair, const struct buffer *buffer)
{
	if (!buffer->kind->disturb)
		return UINT64_MAX;
	return buffer->side == PF_SIDE_LOCAL ? atomic_load(&memory.turns) :
					       atomic_load(pair_value(pair, 1, 2));
}

struct buffers {
	struct buffer source, destination;
};

static struct buffer *on_side(struct buffers *buffers, enum pf_side side)
{
	return buffers->source.side == side ? &buffers->source : &buffers->destination;
}

static pf_completion transfer(struct pair *pair, const struct cell *cell, struct buffers *buffers)
{
	void *local = (void *)(uintptr_t)on_side(buffers, PF_SIDE_LOCAL)->start;
	uint64_t remote = on_side(buffers, PF_SIDE_REMOTE)->start;
	size_t length = buffers->source.length;

	return cell->put ? pair_put(pair, pair->peer, local, remote, length) :
			   pair_get(pair, pair->peer, local, remote, length);
}

static void check_completion(const pf_completion *completion, struct buffers *buffers)
{
	enum outcome from = outcome_of(&buffers->source), to = outcome_of(&buffers->destination);
	const struct buffer *at;
	size_t length = buffers->source.length;

	if (completion->status == PF_OK) {
		if (from == OUTCOME_FAULTS || to == OUTCOME_FAULTS)
			fail_msg("%zu bytes at +%zu: no error", length, buffers->source.offset);
		return;
	}
	if (completion->status != PF_ERR_FAULT || (from == OUTCOME_MOVES && to == OUTCOME_MOVES) ||
	    completion->side == PF_SIDE_NONE)
		fail_msg("%zu bytes from +%zu to +%zu: %s, side %d, address %#llx", length,
			 buffers->source.offset, buffers->destination.offset,
			 pf_strerror(completion->status), completion->side,
			 (unsigned long long)completion->address);
	at = on_side(buffers, completion->side);
	if (outcome_of(at) == OUTCOME_MOVES)
		fail_msg("%zu bytes: a fault on side %d, which has them all", length,
			 completion->side);
	if (completion->address - at->start >= length)
		fail_msg("%zu bytes: a fault at an address outside, by %td", length,
			 (ptrdiff_t)(completion->address - at->start));
	if (outcome_of(at) == OUTCOME_FAULTS && completion->address != at->bad)
		fail_msg("%zu bytes: a fault at byte %td, expected at %td", length,
			 (ptrdiff_t)(completion->address - at->start),
			 (ptrdiff_t)(at->bad - at->start));
}

/* So often a disturbance has to come round while transfers go on. */
#define TURNS 4
#define TRANSFERS_MOST 2000

static void move(struct pair *pair, const struct cell *cell, size_t length, size_t from, size_t to,
		 struct random_numbers *numbers)
{
	struct buffers buffers;
	struct buffer *source = &buffers.source, *destination = &buffers.destination;
	pf_completion completion;
	unsigned count = 0;

	*source = (struct buffer){
		.side = cell->put ? PF_SIDE_LOCAL : PF_SIDE_REMOTE,
		.kind = cell->role == ROLE_DESTINATION ? memory_kinds[0] : cell->kind,
		.source = true,
		.length = length,
		.offset = from,
		.seed = random_next(numbers),
	};
	*destination = (struct buffer){
		.side = cell->put ? PF_SIDE_REMOTE : PF_SIDE_LOCAL,
		.kind = cell->role == ROLE_SOURCE ? memory_kinds[0] : cell->kind,
		.length = length,
		.offset = to,
		.seed = random_next(numbers),
	};
	ask(pair, WISH_OPEN, source, source);
	ask(pair, WISH_OPEN, destination, destination);
	ask(pair, WISH_DISTURB, source, source);
	ask(pair, WISH_DISTURB, destination, destination);
	do {
		completion = transfer(pair, cell, &buffers);
		check_completion(&completion, &buffers);
	} while ((turns(pair, source) < TURNS || turns(pair, destination) < TURNS) &&
		 ++count < TRANSFERS_MOST);
	ask(pair, WISH_SETTLE, source, source);
	ask(pair, WISH_SETTLE, destination, destination);
	if (completion.status == PF_OK)
		ask(pair, WISH_CHECK, destination, source);
	/* A program's own memory has nothing around it that would be known. */
	if (destination->kind->holds != CONTENTS_PROGRAM)
		ask(pair, WISH_CHECK_AROUND, destination, destination);
	if (heals(source) && heals(destination)) {
		completion = transfer(pair, cell, &buffers);
		if (completion.status != PF_OK)
			fail_msg("%zu bytes, settled: %s", length, pf_strerror(completion.status));
		ask(pair, WISH_CHECK, destination, source);
		ask(pair, WISH_CHECK_AROUND, destination, destination);
	}
	ask(pair, WISH_CLOSE, destination, destination);
	ask(pair, WISH_CLOSE, source, source);
}

static void each_length(struct pair *pair, const struct cell *cell, struct random_numbers *numbers)
{
	static const size_t lengths[] = { 1, 4095, 4096, 16385, MIB + 3 };
	const struct memory_kind *kind = cell->kind;
	size_t i;

	if (kind->only) {
		move(pair, cell, kind->only, 0, 0, numbers);
		return;
	}
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i];

		if (kind->most && length > kind->most)
			length = kind->most;
		move(pair, cell, length, 0, 0, numbers);
		move(pair, cell, length, 1 + random_below(numbers, PAGE - 1),
		     1 + random_below(numbers, PAGE - 1), numbers);
	}
	/* Long ones cost seconds: once for each kind. */
	if (!kind->most && cell->role == ROLE_BOTH && cell->put && !cell->ring)
		move(pair, cell, REPEAT(64 * MIB), 0, random_below(numbers, PAGE), numbers);
}

static void run_cell(void **state)
{
	const struct cell *cell = *state;
	struct random_numbers numbers;
	struct pair_setup setup = {
		.here = pair_options(),
		.there = pair_options(),
		.partner = serve,
	};
	const char *reason = cell->kind->machine ? cell->kind->machine() : NULL;
	struct pair *pair;

	if (reason) {
		print_message("# %s: %s\n", cell->kind->name, reason);
		skip();
	}
	numbers = random_start(cell->name);
	setup.here.single_copy = setup.there.single_copy = !cell->ring;
	wishes = 0;
	pair = pair_start(&setup);
	context_here = pair->context;
	each_length(pair, cell, &numbers);
	pair_end(pair);
}

static int teardown(void **state)
{
	const char *error;

	if (is_open)
		memory_close(&memory);
	is_open = false;
	context_here = NULL;
	pair_teardown(state);
	error = machine_restore();
	if (error)
		print_message("# %s\n", error);
	return error ? -1 : 0;
}

static const char *outcome_name(const struct cell *cell)
{
	const struct memory_kind *kind = cell->kind;
	enum outcome from = cell->role == ROLE_DESTINATION ? OUTCOME_MOVES : kind->source;
	enum outcome to = cell->role == ROLE_SOURCE ? OUTCOME_MOVES : kind->destination;

	if (from == OUTCOME_FAULTS || to == OUTCOME_FAULTS)
		return "faults";
	return from == OUTCOME_EITHER || to == OUTCOME_EITHER ? "moves or faults" : "moves";
}

/* Of a kind: put and get, three roles, two ways; one where the thread sanitizer makes it slow. */
#if defined(__SANITIZE_THREAD__)
#define CELLS 6
#else
#define CELLS 12
#endif

/*
 * What has one length only takes seconds for each. PF_TEST_QUICK: single copies,
 * one side at a time; the whole was run elsewhere, or will be.
 */
static bool has_cell(const struct memory_kind *kind, unsigned i)
{
	if (getenv("PF_TEST_QUICK") && (kind->only || i >= 6 || i % 3 == ROLE_BOTH))
		return false;
	return (!kind->only || i < 6) && (!kind->source_only || i % 3 == ROLE_SOURCE);
}

static size_t count_cells(void)
{
	const struct memory_kind *const *list, *kind;
	size_t count = 0;
	unsigned i;

	for (list = memory_kinds; *list; list++) {
		for (kind = *list; kind->name; kind++) {
			for (i = 0; i < CELLS; i++)
				count += has_cell(kind, i);
		}
	}
	return count;
}

static void name_cells(struct cell *cells, struct CMUnitTest *tests)
{
	static const char *const roles[] = { "source", "destination", "both" };
	const struct memory_kind *const *list, *kind;
	unsigned i;

	for (list = memory_kinds; *list; list++) {
		for (kind = *list; kind->name; kind++) {
			for (i = 0; i < CELLS; i++) {
				if (!has_cell(kind, i))
					continue;
				cells->kind = kind;
				cells->role = (enum role)(i % 3);
				cells->put = i / 3 % 2 == 0;
				cells->ring = i / 6;
				snprintf(cells->name, sizeof(cells->name), "%s: %s %s %s%s",
					 kind->name, cells->put ? "put" : "get", roles[cells->role],
					 outcome_name(cells), cells->ring ? ", ring" : "");
				*tests++ = (struct CMUnitTest){ cells->name, run_cell, NULL,
								teardown, cells };
				cells++;
			}
		}
	}
}

int main(int argc, char **argv)
{
	size_t count = count_cells();
	struct CMUnitTest *tests = calloc(count, sizeof(*tests));
	struct cell *cells = calloc(count, sizeof(*cells));
	int status;

	if (!tests || !cells)
		return 1;
	memory_pager = &engine_pager;
	name_cells(cells, tests);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	status = _cmocka_run_group_tests("matrix", tests, count, NULL, NULL);
	free(tests);
	free(cells);
	return status;
}
