/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matrix of faults: each kind of memory (memory.h) as the source and the destination of puts
 * and gets, by single copy and through the ring. The side that has the memory verifies its
 * contents; an error must name an address that cannot be accessed; both processes live on. Every
 * other put has a signal, which must happen if the put succeeds, and only then.
 *
 * tests/matrix-table reads the names of the cells.
 */
#include "pair.h"

#include "machine.h"
#include "memory.h"

enum role { ROLE_SOURCE, ROLE_DESTINATION, ROLE_BOTH };

struct cell {
	const struct memory_kind *kind;
	enum role role;
	enum pair_direction direction;
	bool ring;
	char name[120];
};

/* One end of a transfer, as the test sees it. */
struct buffer {
	enum pf_side side;
	const struct memory_kind *kind;
	bool source;
	size_t length, offset;
	uint64_t seed;
	/* From the process that has it. */
	uint64_t start, bad, turns;
};

struct buffers {
	struct buffer source, destination;
};

/* ---- the memory of this process, and what is done with it on either side ---- */

static struct memory memory;
static bool is_open;

static pf_context *context_here;
static pf_pager *pager;

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	const struct memory *paged = arg;

	memcpy(page, (uint8_t *)paged->other + (address - remote_address(paged->map)), length);
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

/* CHECK compares with the contents of another memory, the others are about this one. */
enum action { OPEN, DISTURB, SETTLE, CHECK, CHECK_AROUND, COUNT_TURNS, CLOSE };

/* Arguments: action, kind, source, length, offset, seed. */
static const char *act(pf_context *context, const uint64_t *arguments)
{
	const struct memory_kind *kind = (const void *)(uintptr_t)arguments[1];
	size_t length = arguments[3], offset = arguments[4];
	const char *error = NULL;

	context_here = context;
	switch ((enum action)arguments[0]) {
	case OPEN:
		error = memory_open(&memory, kind, arguments[2], length, offset, arguments[5]);
		is_open = !error;
		break;
	case DISTURB:
		error = memory_disturb(&memory);
		break;
	case SETTLE:
		error = memory_settle(&memory);
		break;
	case CHECK:
		error = memory_check(&memory, kind, memory_position(offset), arguments[5]);
		break;
	case CHECK_AROUND:
		error = memory_check_around(&memory);
		break;
	case COUNT_TURNS:
		break;
	case CLOSE:
		memory_close(&memory);
		is_open = false;
		break;
	}
	return error;
}

/* Numbers of the partner: 0: the start of its buffer, 1: its first bad address, 2: turns. */
static void act_for_test(struct pair *me, const uint64_t *arguments)
{
	const char *error = act(me->context, arguments);

	if (error)
		pair_fail(me, __FILE__, __LINE__, error);
	*pair_value(me, 1, 0) = remote_address(memory.start);
	*pair_value(me, 1, 1) = memory.bad;
	*pair_value(me, 1, 2) = memory.turns;
}

/* ---- the test ---- */

/* Have the side of a buffer do this with it. */
static void ask_about(struct pair *pair, enum action action, struct buffer *buffer,
		      const struct buffer *about)
{
	const uint64_t arguments[PAIR_ARGUMENTS] = { action,        remote_address(about->kind),
						     about->source, about->length,
						     about->offset, about->seed };
	const char *error;

	if (buffer->side == PF_SIDE_LOCAL) {
		error = act(pair->context, arguments);
		if (error)
			fail_msg("%s", error);
		buffer->start = remote_address(memory.start);
		buffer->bad = memory.bad;
		buffer->turns = memory.turns;
		return;
	}
	pair_run_command(pair, arguments);
	buffer->start = *pair_value(pair, 1, 0);
	buffer->bad = *pair_value(pair, 1, 1);
	buffer->turns = *pair_value(pair, 1, 2);
}

static void ask(struct pair *pair, enum action action, struct buffer *buffer)
{
	ask_about(pair, action, buffer, buffer);
}

static void ask_both(struct pair *pair, enum action action, struct buffers *buffers)
{
	ask(pair, action, &buffers->source);
	ask(pair, action, &buffers->destination);
}

static enum outcome outcome_of(const struct buffer *buffer)
{
	return buffer->source ? buffer->kind->source : buffer->kind->destination;
}

/* Transfers from or to it succeed once it is settled. */
static bool heals(const struct buffer *buffer)
{
	return outcome_of(buffer) != OUTCOME_FAULTS || buffer->kind->settle;
}

static struct buffer *on_side(struct buffers *buffers, enum pf_side side)
{
	return buffers->source.side == side ? &buffers->source : &buffers->destination;
}

static pf_completion put_signal(struct pair *pair, struct buffers *buffers)
{
	const pf_signal signal = { PF_SIGNAL_ADD, pair_there(pair, 1, pair->window), 1 };
	uint64_t before = load64(pair->window);
	pf_completion completion =
		pair_put_signal(pair, pair->peer, (void *)(uintptr_t)buffers->source.start,
				buffers->destination.start, buffers->source.length, signal);

	assert_int_equal(load64(pair->window), before + (completion.status == PF_OK));
	return completion;
}

static pf_completion transfer(struct pair *pair, const struct cell *cell, struct buffers *buffers)
{
	static unsigned puts;

	if (cell->direction == PUT && ++puts % 2)
		return put_signal(pair, buffers);
	return pair_transfer(pair, pair->peer, cell->direction,
			     (void *)(uintptr_t)on_side(buffers, PF_SIDE_LOCAL)->start,
			     on_side(buffers, PF_SIDE_REMOTE)->start, buffers->source.length);
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
	if (completion->status != PF_ERR_FAULT || completion->side == PF_SIDE_NONE)
		fail_msg("%zu bytes from +%zu to +%zu: %s, side %d, address %#llx", length,
			 buffers->source.offset, buffers->destination.offset,
			 pf_strerror(completion->status), completion->side,
			 (unsigned long long)completion->address);
	at = on_side(buffers, completion->side);
	if (outcome_of(at) == OUTCOME_MOVES)
		fail_msg("%zu bytes: a fault on side %d, whose memory is accessible", length,
			 completion->side);
	if (completion->address - at->start >= length)
		fail_msg("%zu bytes: a fault outside, at byte %td", length,
			 (ptrdiff_t)(completion->address - at->start));
	if (outcome_of(at) == OUTCOME_FAULTS && completion->address != at->bad)
		fail_msg("%zu bytes: a fault at byte %td, expected at %td", length,
			 (ptrdiff_t)(completion->address - at->start),
			 (ptrdiff_t)(at->bad - at->start));
}

/* Turns of a disturbance that transfers have to go on for. */
#define TURNS 4
#define TRANSFERS_MOST 2000

static bool disturbed_enough(struct pair *pair, struct buffer *buffer)
{
	if (!buffer->kind->disturb)
		return true;
	ask(pair, COUNT_TURNS, buffer);
	return buffer->turns >= TURNS;
}

static void check_destination(struct pair *pair, struct buffers *buffers)
{
	ask_about(pair, CHECK, &buffers->destination, &buffers->source);
	ask(pair, CHECK_AROUND, &buffers->destination);
}

static void move(struct pair *pair, const struct cell *cell, size_t length, size_t from, size_t to,
		 struct random_numbers *numbers)
{
	struct buffers buffers = {
		.source = { .side = cell->direction == PUT ? PF_SIDE_LOCAL : PF_SIDE_REMOTE,
			    .kind = cell->role == ROLE_DESTINATION ? memory_kinds[0] : cell->kind,
			    .source = true,
			    .length = length,
			    .offset = from,
			    .seed = random_next(numbers) },
		.destination = { .side = cell->direction == PUT ? PF_SIDE_REMOTE : PF_SIDE_LOCAL,
				 .kind = cell->role == ROLE_SOURCE ? memory_kinds[0] : cell->kind,
				 .length = length,
				 .offset = to,
				 .seed = random_next(numbers) },
	};
	struct buffer *source = &buffers.source, *destination = &buffers.destination;
	pf_completion completion;
	unsigned count = 0;

	ask_both(pair, OPEN, &buffers);
	ask_both(pair, DISTURB, &buffers);
	do {
		completion = transfer(pair, cell, &buffers);
		check_completion(&completion, &buffers);
	} while ((!disturbed_enough(pair, source) || !disturbed_enough(pair, destination)) &&
		 ++count < TRANSFERS_MOST);
	ask_both(pair, SETTLE, &buffers);
	if (completion.status == PF_OK)
		check_destination(pair, &buffers);
	else if (destination->kind->holds != CONTENTS_PROGRAM)
		ask(pair, CHECK_AROUND, destination);
	if (heals(source) && heals(destination)) {
		completion = transfer(pair, cell, &buffers);
		if (completion.status != PF_OK)
			fail_msg("%zu bytes, settled: %s", length, pf_strerror(completion.status));
		check_destination(pair, &buffers);
	}
	ask(pair, CLOSE, destination);
	ask(pair, CLOSE, source);
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
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t length = lengths[i];

		if (kind->most && length > kind->most)
			length = kind->most;
		move(pair, cell, length, 0, 0, numbers);
		move(pair, cell, length, 1 + random_below(numbers, PAGE - 1),
		     1 + random_below(numbers, PAGE - 1), numbers);
	}
	/* A long one takes seconds: once for each kind. */
	if (!kind->most && cell->role == ROLE_BOTH && cell->direction == PUT && !cell->ring)
		move(pair, cell, REPEAT(memory_longest()), 0, random_below(numbers, PAGE), numbers);
}

static void run_cell(void **state)
{
	const struct cell *cell = *state;
	struct random_numbers numbers;
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .command = act_for_test,
				    .window = PAGE };
	const char *reason = cell->kind->machine ? cell->kind->machine() : NULL;
	struct pair *pair;

	if (reason) {
		print_message("# %s: %s\n", cell->kind->name, reason);
		skip();
	}
	numbers = random_start(cell->name);
	setup.here.single_copy = setup.there.single_copy = !cell->ring;
	pair = pair_start(&setup);
	each_length(pair, cell, &numbers);
	pair_end(pair);
}

static int teardown(void **state)
{
	const char *error;

	if (is_open)
		memory_close(&memory);
	is_open = false;
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

/* Cells of a kind: put and get, three roles, single copy and ring. */
#if defined(__SANITIZE_THREAD__)
#define CELLS 6
#else
#define CELLS 12
#endif

/* Kinds with one length take seconds each. LIBPF_TEST_QUICK: single copies, one side at a time. */
static bool has_cell(const struct memory_kind *kind, unsigned i)
{
	if (getenv("LIBPF_TEST_QUICK") && (kind->only || i >= 6 || i % 3 == ROLE_BOTH))
		return false;
	return (!kind->only || i < 6) && (!kind->source_only || i % 3 == ROLE_SOURCE);
}

/* Fill in the arrays unless they are NULL; return the number of cells. */
static size_t list_cells(struct cell *cells, struct CMUnitTest *tests)
{
	static const char *const roles[] = { "source", "destination", "both" };
	const struct memory_kind *const *list, *kind;
	size_t count = 0;
	unsigned i;

	for (list = memory_kinds; *list; list++) {
		for (kind = *list; kind->name; kind++) {
			for (i = 0; i < CELLS; i++) {
				struct cell *cell;

				if (!has_cell(kind, i))
					continue;
				count++;
				if (!cells)
					continue;
				cell = &cells[count - 1];
				cell->kind = kind;
				cell->role = (enum role)(i % 3);
				cell->direction = i / 3 % 2 ? GET : PUT;
				cell->ring = i / 6;
				snprintf(cell->name, sizeof(cell->name), "%s: %s %s %s%s",
					 kind->name, cell->direction == PUT ? "put" : "get",
					 roles[cell->role], outcome_name(cell),
					 cell->ring ? ", ring" : "");
				tests[count - 1] = (struct CMUnitTest){ cell->name, run_cell, NULL,
									teardown, cell };
			}
		}
	}
	return count;
}

int main(int argc, char **argv)
{
	size_t count = list_cells(NULL, NULL);
	struct CMUnitTest *tests = test_alloc(count * sizeof(*tests));
	struct cell *cells = test_alloc(count * sizeof(*cells));
	int status;

	memory_pager = &engine_pager;
	list_cells(cells, tests);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	status = pair_run_cases("matrix", tests, count);
	free(tests);
	free(cells);
	return status;
}
