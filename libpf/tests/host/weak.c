/* SPDX-License-Identifier: BSD-3-Clause */
#include "weak.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define STACK (64u << 10)
#define PLACES_MOST 64
#define VALUES_MOST 64
#define BUFFER_MOST 16
#define STEPS_MOST 1000
#define LOADED_MOST 64
/* States of one scenario; a power of two. */
#define STATES_MOST (1u << 20)

/* By thread: how many of its releases happened before. */
struct clock {
	uint32_t count[WEAK_THREADS];
};

/* A value that a place has had since a point in time. */
struct value {
	uint64_t value, since;
	struct clock clock;
};

struct place {
	uint8_t *address;
	size_t size;
	unsigned count;
	struct value values[VALUES_MOST]; /* oldest first */
	/* Last accesses by thread: the thread's own count then, 0: none. */
	struct clock plain_write, plain_read, atomic_write, atomic_read;
};

struct buffered {
	unsigned place;
	bool release;
	uint64_t value;
	struct clock clock; /* 0 of a store without release */
};

enum step { STEP_LOAD, STEP_MODIFY, STEP_COMPARE, STEP_FENCE, STEP_PAUSE, STEP_WAIT, STEP_ENDED };

struct thread {
	ucontext_t context;
	enum step step; /* what it does next */
	unsigned place;
	memory_order order;
	uint64_t operand, compare;
	bool exchange, asleep;
	uint64_t result;
	uint64_t seen;                /* hash of all results */
	uint64_t floor;               /* loads are performed after this time */
	unsigned oldest[PLACES_MOST]; /* index of the oldest value that it may load */
	struct clock clock;
	unsigned buffer_count;
	struct buffered buffer[BUFFER_MOST];
};

/* A thread loads from there in some execution. */
struct loaded {
	unsigned thread;
	const uint8_t *address;
};

struct choice {
	unsigned taken, count;
};

static struct {
	const struct weak_scenario *scenario;
	const struct weak_site *weakened;
	struct weak_site *sites;
	ucontext_t scheduler;
	struct thread threads[WEAK_THREADS], *running;
	struct place places[PLACES_MOST];
	unsigned place_count;
	uint64_t now;
	const char *failure;
	struct loaded loaded[LOADED_MOST];
	unsigned loaded_count;
	bool restart; /* a place was loaded that was not known to be */
	struct choice choices[STEPS_MOST];
	unsigned depth, known_depth;
	uint64_t executions, states, *visited;
} weak;

static uint8_t stacks[WEAK_THREADS][STACK];

static void fail(const char *what)
{
	if (!weak.failure)
		weak.failure = what;
}

static void broken(const char *what)
{
	fprintf(stderr, "weak: %s in %s\n", what, weak.scenario->name);
	abort();
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

static unsigned self(void)
{
	return (unsigned)(weak.running - weak.threads);
}

/* ---- happens-before ---- */

static void join(struct clock *clock, const struct clock *other)
{
	unsigned i;

	for (i = 0; i < WEAK_THREADS; i++) {
		if (clock->count[i] < other->count[i])
			clock->count[i] = other->count[i];
	}
}

/* All those accesses happened before what the running thread does now. */
static bool happened(const struct clock *accesses)
{
	unsigned i;

	for (i = 0; i < WEAK_THREADS; i++) {
		if (accesses->count[i] > weak.running->clock.count[i])
			return false;
	}
	return true;
}

static void note(struct clock *accesses)
{
	if (weak.scenario->plain)
		accesses->count[self()] = weak.running->clock.count[self()];
}

static bool acquires(memory_order order)
{
	return order == memory_order_acquire || order == memory_order_acq_rel ||
	       order == memory_order_seq_cst;
}

static bool releases(memory_order order)
{
	return order == memory_order_release || order == memory_order_acq_rel ||
	       order == memory_order_seq_cst;
}

/* ---- memory ---- */

static uint64_t initial(const void *address, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, address, size); /* little endian */
	return value;
}

/* The number of a place, or place_count if no thread has used it. */
static unsigned find_known(void *address, size_t size)
{
	unsigned i;

	for (i = 0; i < weak.place_count; i++) {
		if (weak.places[i].address == address && weak.places[i].size == size)
			break;
	}
	return i;
}

static unsigned find(void *address, size_t size)
{
	unsigned i = find_known(address, size);
	struct place *place;

	if (i < weak.place_count)
		return i;
	if (i == PLACES_MOST)
		broken("too many places");
	weak.place_count++;
	place = &weak.places[i];
	*place = (struct place){ .address = address, .size = size, .count = 1 };
	place->values[0].value = initial(address, size);
	return i;
}

static struct value *newest(unsigned place)
{
	return &weak.places[place].values[weak.places[place].count - 1];
}

/* A value becomes visible. */
static void set(unsigned number, uint64_t value, const struct clock *clock)
{
	struct place *place = &weak.places[number];

	if (place->count == VALUES_MOST)
		broken("too many values");
	if (place->size < 8)
		value &= ((uint64_t)1 << 8 * place->size) - 1;
	place->values[place->count++] =
		(struct value){ .value = value, .since = ++weak.now, .clock = *clock };
}

static void leave_buffer(struct thread *thread, unsigned i)
{
	struct buffered *buffered = &thread->buffer[i];

	set(buffered->place, buffered->value, &buffered->clock);
	thread->oldest[buffered->place] = weak.places[buffered->place].count - 1;
	memmove(buffered, buffered + 1, (--thread->buffer_count - i) * sizeof(*buffered));
}

static bool may_leave(const struct thread *thread, unsigned i)
{
	unsigned j;

	if (thread->buffer[i].release)
		return i == 0;
	for (j = 0; j < i; j++) {
		if (thread->buffer[j].place == thread->buffer[i].place)
			return false;
	}
	return true;
}

static const struct buffered *own_store(const struct thread *thread, unsigned place)
{
	unsigned i;

	for (i = thread->buffer_count; i-- > 0;) {
		if (thread->buffer[i].place == place)
			return &thread->buffer[i];
	}
	return NULL;
}

/* The oldest value that a load may return. */
static unsigned oldest(const struct thread *thread, unsigned number)
{
	const struct place *place = &weak.places[number];
	unsigned i = thread->oldest[number];

	while (i + 1 < place->count && place->values[i + 1].since <= thread->floor)
		i++;
	return i;
}

/* ---- steps of a thread ---- */

static bool loads(unsigned thread, const struct place *place)
{
	unsigned i;

	for (i = 0; i < weak.loaded_count; i++) {
		if (weak.loaded[i].thread == thread && weak.loaded[i].address == place->address)
			return true;
	}
	return false;
}

static uint64_t step(enum step step, unsigned place);

/*
 * What a thread never loads need not be told apart. Which places it loads is found out on the way: a
 * new one begins the exploration again, so in the last one all are known from the start.
 */
static uint64_t step_load(unsigned number)
{
	const struct place *place = &weak.places[number];

	if (!loads(self(), place)) {
		if (weak.loaded_count == LOADED_MOST)
			broken("too many places loaded");
		weak.loaded[weak.loaded_count++] = (struct loaded){ self(), place->address };
		weak.restart = true;
	}
	return step(STEP_LOAD, number);
}

/* Let the scheduler choose; return the result. */
static uint64_t step(enum step step, unsigned place)
{
	struct thread *thread = weak.running;

	thread->step = step;
	thread->place = place;
	swapcontext(&thread->context, &weak.scheduler);
	thread->seen = mix(thread->seen, thread->result);
	return thread->result;
}

static memory_order order_at(struct weak_site *site, memory_order order)
{
	if (order != memory_order_relaxed && !site->listed) {
		site->listed = true;
		site->next = weak.sites;
		weak.sites = site;
	}
	return site == weak.weakened ? memory_order_relaxed : order;
}

/* Load places of one byte by a wider load, one by one: weaker than the machine. False if there are none. */
static bool load_bytes(uint8_t *address, size_t size, uint64_t *value)
{
	bool any = false;
	size_t i;

	*value = 0;
	for (i = 0; i < size; i++) {
		unsigned place = find_known(address + i, 1);

		if (place == weak.place_count)
			continue;
		any = true;
		weak.running->order = memory_order_relaxed;
		*value |= step_load(place) << 8 * i;
	}
	return any;
}

uint64_t weak_load(struct weak_site *site, void *address, size_t size, memory_order order)
{
	unsigned place;
	uint64_t value;

	order = order_at(site, order);
	if (order == memory_order_seq_cst)
		broken("a sequentially consistent load");
	if (size > 1 && load_bytes(address, size, &value))
		return value;
	place = find(address, size);
	if (!happened(&weak.places[place].plain_write))
		fail("a load races with a plain write");
	note(&weak.places[place].atomic_read);
	weak.running->order = order;
	return step_load(place);
}

static void count_release(void)
{
	if (weak.scenario->plain)
		weak.running->clock.count[self()]++;
}

void weak_store(struct weak_site *site, void *address, size_t size, uint64_t value,
		memory_order order)
{
	struct thread *thread = weak.running;
	unsigned place = find(address, size);
	struct buffered *buffered = &thread->buffer[thread->buffer_count++];

	order = order_at(site, order);
	if (order == memory_order_seq_cst)
		broken("a sequentially consistent store");
	if (thread->buffer_count == BUFFER_MOST)
		broken("too many stores");
	if (!happened(&weak.places[place].plain_write) || !happened(&weak.places[place].plain_read))
		fail("a store races with plain data");
	note(&weak.places[place].atomic_write);
	*buffered = (struct buffered){ .place = place, .value = value };
	if (!releases(order))
		return;
	buffered->release = true;
	buffered->clock = thread->clock;
	count_release();
}

void weak_fence(struct weak_site *site, memory_order order)
{
	order = order_at(site, order);
	if (order == memory_order_relaxed)
		return;
	if (order != memory_order_seq_cst)
		broken("a fence that is not sequentially consistent");
	step(STEP_FENCE, 0);
}

static void begin_modify(struct weak_site *site, unsigned place, memory_order order)
{
	weak.running->order = order_at(site, order);
	if (!happened(&weak.places[place].plain_write) || !happened(&weak.places[place].plain_read))
		fail("a read-modify-write races with plain data");
	note(&weak.places[place].atomic_write);
}

uint64_t weak_modify(struct weak_site *site, void *address, size_t size, uint64_t value,
		     bool exchange, memory_order order)
{
	unsigned place = find(address, size);

	begin_modify(site, place, order);
	weak.running->operand = value;
	weak.running->exchange = exchange;
	return step(STEP_MODIFY, place);
}

bool weak_compare_exchange(struct weak_site *site, void *address, size_t size, uint64_t *expected,
			   uint64_t value, memory_order order)
{
	unsigned place = find(address, size);
	uint64_t wanted = *expected;

	begin_modify(site, place, order);
	weak.running->operand = value;
	weak.running->compare = wanted;
	*expected = step(STEP_COMPARE, place);
	return *expected == wanted;
}

void weak_pause(void)
{
	step(STEP_PAUSE, 0);
}

void weak_remember(uint64_t all)
{
	weak.running->seen = mix(0, all);
}

long weak_futex(long number, void *word, int operation, int value, ...)
{
	unsigned place = find(word, sizeof(uint32_t)), i;

	(void)number;
	if (operation == FUTEX_WAIT) {
		weak.running->compare = (uint32_t)value;
		return step(STEP_WAIT, place) ? -1 : 0;
	}
	for (i = 0; i < WEAK_THREADS; i++) {
		if (weak.threads[i].asleep && weak.threads[i].place == place)
			weak.threads[i].asleep = false;
	}
	return 0;
}

void weak_write(void *address, uint64_t value)
{
	unsigned number = find(address, 8), i;
	struct place *place = &weak.places[number];

	if (!weak.scenario->plain)
		broken("plain data");
	if (!happened(&place->plain_write) || !happened(&place->plain_read) ||
	    !happened(&place->atomic_write) || !happened(&place->atomic_read))
		fail("a plain write races");
	note(&place->plain_write);
	/* Without a race no other thread can tell when it becomes visible. */
	while (own_store(weak.running, number))
		leave_buffer(weak.running, 0);
	place->count = 0;
	set(number, value, &(struct clock){ 0 });
	place->values[0].since = 0;
	for (i = 0; i < WEAK_THREADS; i++)
		weak.threads[i].oldest[number] = 0;
}

uint64_t weak_read(void *address)
{
	unsigned number = find(address, 8);
	struct place *place = &weak.places[number];

	if (!happened(&place->plain_write) || !happened(&place->atomic_write))
		fail("a plain read races with a write");
	note(&place->plain_read);
	weak.running->seen = mix(weak.running->seen, newest(number)->value);
	return newest(number)->value;
}

void weak_require(bool condition, const char *what)
{
	if (!condition)
		fail(what);
}

/* ---- the scheduler ---- */

/* How many results the next step of a thread can have; 0: it cannot go on. */
static unsigned variants(const struct thread *thread)
{
	const struct buffered *own;

	if (thread->asleep)
		return 0;
	switch (thread->step) {
	case STEP_LOAD:
		own = own_store(thread, thread->place);
		return own ? 1 : weak.places[thread->place].count - oldest(thread, thread->place);
	case STEP_FENCE:
		return thread->buffer_count == 0;
	case STEP_MODIFY:
	case STEP_COMPARE:
		if (releases(thread->order))
			return thread->buffer_count == 0;
		__attribute__((fallthrough));
	case STEP_WAIT:
		return !own_store(thread, thread->place);
	case STEP_PAUSE:
		return thread->buffer_count == 0 && weak.now > thread->floor;
	case STEP_ENDED:
		break;
	}
	return 0;
}

static void resume(struct thread *thread)
{
	weak.running = thread;
	swapcontext(&weak.scheduler, &thread->context);
}

static void acquire(struct thread *thread, const struct value *value, uint64_t performed)
{
	if (!acquires(thread->order))
		return;
	if (thread->floor < performed)
		thread->floor = performed;
	join(&thread->clock, &value->clock);
}

static void load(struct thread *thread, unsigned variant)
{
	const struct buffered *own = own_store(thread, thread->place);
	const struct value *value;
	unsigned i;

	if (own) {
		thread->result = own->value;
		return;
	}
	i = oldest(thread, thread->place) + variant;
	value = &weak.places[thread->place].values[i];
	thread->oldest[thread->place] = i;
	thread->result = value->value;
	acquire(thread, value, value->since);
}

static void modify(struct thread *thread, bool stores, uint64_t value)
{
	struct value before = *newest(thread->place);
	/* A release before is one of this store as well. */
	struct clock clock = before.clock;

	thread->result = before.value;
	acquire(thread, &before, weak.now);
	if (stores) {
		if (releases(thread->order)) {
			join(&clock, &thread->clock);
			count_release();
		}
		set(thread->place, value, &clock);
		if (acquires(thread->order))
			thread->floor = weak.now;
	}
	thread->oldest[thread->place] = weak.places[thread->place].count - 1;
}

static void perform(struct thread *thread, unsigned variant)
{
	uint64_t value;

	weak.running = thread;
	thread->result = 0;
	switch (thread->step) {
	case STEP_LOAD:
		load(thread, variant);
		break;
	case STEP_MODIFY:
		value = newest(thread->place)->value;
		modify(thread, true, thread->exchange ? thread->operand : value + thread->operand);
		break;
	case STEP_COMPARE:
		value = newest(thread->place)->value;
		modify(thread, value == thread->compare, thread->operand);
		break;
	case STEP_FENCE:
	case STEP_PAUSE:
		thread->floor = weak.now;
		break;
	case STEP_WAIT:
		thread->result = newest(thread->place)->value != thread->compare;
		if (!thread->result) {
			/* The futex returns when another thread wakes it. */
			thread->step = STEP_FENCE;
			thread->asleep = true;
			return;
		}
		break;
	case STEP_ENDED:
		return;
	}
	resume(thread);
}

/* Take one of count choices: that of the execution that is repeated, or the first. */
static unsigned choose(unsigned count)
{
	struct choice *choice = &weak.choices[weak.depth];

	if (weak.depth == STEPS_MOST)
		broken("too many steps");
	if (weak.depth++ == weak.known_depth) {
		*choice = (struct choice){ 0, count };
		weak.known_depth++;
	}
	if (choice->count != count)
		broken("a thread that does not repeat itself");
	return choice->taken;
}

static bool may_load(unsigned thread, unsigned place)
{
	return weak.threads[thread].step != STEP_ENDED && loads(thread, &weak.places[place]);
}

static uint64_t hash_clock(uint64_t hash, const struct clock *clock)
{
	unsigned i;

	for (i = 0; i < WEAK_THREADS; i++)
		hash = mix(hash, clock->count[i]);
	return hash;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

/* Of a time: how many times that matter are before it. */
static uint64_t rank(const uint64_t *times, unsigned count, uint64_t time)
{
	uint64_t distinct = 0;
	unsigned i;

	for (i = 0; i < count && times[i] < time; i++)
		distinct += !i || times[i] != times[i - 1];
	return distinct;
}

/* Of all that decides what can happen from here on. */
static uint64_t hash_state(void)
{
	static uint64_t times[PLACES_MOST * VALUES_MOST + WEAK_THREADS + 1];
	unsigned first[PLACES_MOST], i, j, t, count = 0;
	uint64_t hash = 1, sum = 0, least = weak.now;

	for (t = 0; t < WEAK_THREADS; t++) {
		const struct thread *thread = &weak.threads[t];

		if (thread->step == STEP_ENDED)
			continue;
		times[count++] = thread->floor;
		if (least > thread->floor)
			least = thread->floor;
	}
	times[count++] = weak.now;
	for (i = 0; i < weak.place_count; i++) {
		first[i] = weak.places[i].count - 1;
		for (t = 0; t < WEAK_THREADS; t++) {
			if (may_load(t, i) && oldest(&weak.threads[t], i) < first[i])
				first[i] = oldest(&weak.threads[t], i);
		}
		for (j = first[i]; j < weak.places[i].count; j++) {
			if (weak.places[i].values[j].since > least)
				times[count++] = weak.places[i].values[j].since;
		}
	}
	qsort(times, count, sizeof(times[0]), compare_times);
	for (t = 0; t < WEAK_THREADS; t++) {
		const struct thread *thread = &weak.threads[t];

		hash = mix(hash, thread->step << 1 | thread->asleep);
		hash = mix(hash, thread->seen);
		hash = hash_clock(hash, &thread->clock);
		if (thread->step == STEP_ENDED)
			hash = mix(hash, 0);
		else
			hash = mix(hash, rank(times, count, thread->floor));
		hash = mix(hash, thread->buffer_count);
		for (i = 0; i < thread->buffer_count; i++) {
			/* Places are numbered as they are met: the address tells them apart. */
			hash = mix(hash, (uintptr_t)weak.places[thread->buffer[i].place].address);
			hash = mix(hash, thread->buffer[i].value);
			hash = mix(hash, thread->buffer[i].release);
		}
	}
	hash = mix(hash, rank(times, count, weak.now));
	for (i = 0; i < weak.place_count; i++) {
		const struct place *place = &weak.places[i];
		uint64_t one = mix(3, (uintptr_t)place->address);

		one = mix(one, place->size);
		for (j = first[i]; j < place->count; j++) {
			uint64_t since = place->values[j].since;

			one = mix(one, place->values[j].value);
			one = mix(one, rank(times, count, since > least ? since : least));
			one = hash_clock(one, &place->values[j].clock);
		}
		for (t = 0; t < WEAK_THREADS; t++) {
			if (may_load(t, i))
				one = mix(one, oldest(&weak.threads[t], i) - first[i]);
		}
		one = hash_clock(one, &place->plain_write);
		one = hash_clock(one, &place->plain_read);
		one = hash_clock(one, &place->atomic_write);
		one = hash_clock(one, &place->atomic_read);
		/* A sum: in any order of the places. */
		sum += one;
	}
	hash = mix(hash, sum);
	return hash ? hash : 1;
}

/* True if it is new. */
static bool visit(uint64_t hash)
{
	uint64_t i = hash;

	for (;; i++) {
		uint64_t *visited = &weak.visited[i & (STATES_MOST - 1)];

		if (*visited == hash)
			return false;
		if (!*visited) {
			*visited = hash;
			if (++weak.states > STATES_MOST / 4 * 3)
				broken("too many states");
			return true;
		}
	}
}

static void run_thread(void)
{
	struct thread *thread = weak.running;

	weak.scenario->threads[self()]();
	thread->step = STEP_ENDED;
	swapcontext(&thread->context, &weak.scheduler);
}

static void begin_execution(void)
{
	unsigned t;

	weak.place_count = 0;
	weak.now = 0;
	weak.depth = 0;
	weak.executions++;
	weak.scenario->start();
	memset(weak.threads, 0, sizeof(weak.threads));
	for (t = 0; t < WEAK_THREADS; t++) {
		struct thread *thread = &weak.threads[t];

		thread->step = STEP_ENDED;
		if (!weak.scenario->threads[t])
			continue;
		thread->clock.count[t] = weak.scenario->plain;
		getcontext(&thread->context);
		thread->context.uc_stack.ss_sp = stacks[t];
		thread->context.uc_stack.ss_size = STACK;
		makecontext(&thread->context, run_thread, 0);
		resume(thread);
	}
}

/*
 * Take a step that only raises the thread's own floor as soon as it is possible: a later one
 * permits fewer loads. False if there is none.
 */
static bool take_own_step(void)
{
	unsigned t;

	for (t = 0; t < WEAK_THREADS; t++) {
		struct thread *thread = &weak.threads[t];

		if ((thread->step == STEP_FENCE || thread->step == STEP_PAUSE) &&
		    variants(thread)) {
			perform(thread, 0);
			return true;
		}
	}
	return false;
}

/* Run to the end, to a failure, or to a state that is known. */
static void execute(void)
{
	unsigned t, i, count, chosen;
	bool ended;

	begin_execution();
	while (!weak.failure && !weak.restart) {
		if (take_own_step())
			continue;
		if (weak.depth == weak.known_depth && !visit(hash_state()))
			return;
		count = 0;
		ended = true;
		for (t = 0; t < WEAK_THREADS; t++) {
			const struct thread *thread = &weak.threads[t];

			count += variants(thread);
			for (i = 0; i < thread->buffer_count; i++)
				count += may_leave(thread, i);
			ended = ended && thread->step == STEP_ENDED;
		}
		if (!count) {
			if (!ended)
				fail("a thread waits for ever");
			return;
		}
		chosen = choose(count);
		for (t = 0; t < WEAK_THREADS; t++) {
			struct thread *thread = &weak.threads[t];

			count = variants(thread);
			if (chosen < count) {
				perform(thread, chosen);
				break;
			}
			chosen -= count;
			for (i = 0; i < thread->buffer_count; i++) {
				if (may_leave(thread, i) && !chosen--)
					break;
			}
			if (i < thread->buffer_count) {
				leave_buffer(thread, i);
				break;
			}
		}
	}
}

/* All executions, until one fails or loads from a new place. */
static void explore_known(void)
{
	weak.failure = NULL;
	weak.restart = false;
	weak.known_depth = 0;
	weak.states = 0;
	weak.executions = 0;
	memset(weak.visited, 0, STATES_MOST * sizeof(*weak.visited));
	do {
		execute();
		while (weak.known_depth && weak.choices[weak.known_depth - 1].taken + 1 ==
						   weak.choices[weak.known_depth - 1].count)
			weak.known_depth--;
		if (weak.known_depth)
			weak.choices[weak.known_depth - 1].taken++;
	} while (weak.known_depth && !weak.failure && !weak.restart);
}

/* All executions, until one fails. Returns why, or NULL. */
static const char *explore(const struct weak_scenario *scenario, const struct weak_site *weakened)
{
	weak.scenario = scenario;
	weak.weakened = weakened;
	weak.loaded_count = 0;
	do
		explore_known();
	while (weak.restart && !weak.failure);
	return weak.failure;
}

bool weak_check(const struct weak_scenario *scenario)
{
	struct weak_site *site;
	const char *why;
	bool good;

	weak.sites = NULL;
	weak.visited = calloc(STATES_MOST, sizeof(*weak.visited));
	if (!weak.visited)
		broken("out of memory");
	why = explore(scenario, NULL);
	good = !why;
	printf("# %s: %s (%llu states, %llu executions)\n", scenario->name, why ? why : "sound",
	       (unsigned long long)weak.states, (unsigned long long)weak.executions);
	for (site = weak.sites; good && site; site = site->next) {
		why = explore(scenario, site);
		printf("#   relaxed: %s of %s: %s (%llu states)\n", site->access, site->function,
		       why ? why : "nothing fails", (unsigned long long)weak.states);
		if (!why)
			good = false;
	}
	for (site = weak.sites; site; site = site->next)
		site->listed = false;
	free(weak.visited);
	return good;
}
