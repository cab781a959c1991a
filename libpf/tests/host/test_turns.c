/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which operation progress advances next. All contexts are of this process, and the test decides
 * which of them polls, so that calls of progress can be counted.
 */
#include "pair.h"

#include <semaphore.h>
#include <sys/mman.h>

#include "host/advance.h"
#include "host/peer.h"
#include "host/route.h"
#include "host/transfer.h"
#include "page.h"

#define RUN ((size_t)64 << 10)
#define LONG (64 * RUN)
#define SHORT (4 * RUN)
/* More than REQUESTS_MOST, which is all that one peer may owe an answer to. */
#define GETS (3 * REQUESTS_MOST)

/* A context, and others that are its peers. */
struct group {
	pf_context *context, *others[2];
	pf_peer *peers[2];
	uint8_t *local, *remote;
	bool done[3];
	unsigned count;
};

static void set_done(pf_context *context, const pf_completion *completion)
{
	(void)context;
	assert_ok(completion->status);
	*(bool *)completion->arg = true;
}

static void group_open(struct group *group, const pf_options *options)
{
	uint8_t address[PF_ADDRESS_MAX];
	size_t i, length;
	bool done;

	*group = (struct group){ .local = test_alloc(2 * LONG), .remote = test_alloc(2 * LONG) };
	pattern_fill(group->remote, 2 * LONG, 1);
	memset(group->local, 0, 2 * LONG);
	assert_ok(pf_open(options, NULL, &group->context));
	for (i = 0; i < ARRAY_SIZE(group->peers); i++) {
		length = sizeof(address);
		assert_ok(pf_open(options, NULL, &group->others[i]));
		pf_address(group->others[i], address, &length);
		assert_ok(pf_peer_open(group->context, address, length, NULL, &group->peers[i]));
		/* Both directions are connected once it is answered. */
		assert_pending(pf_atomic(group->peers[i], PF_ATOMIC_ADD, 8,
					 remote_address(group->remote) + LONG, 0, 0, set_done,
					 &done));
		for (done = false; !done || peer_state(group->peers[i]) != PF_PEER_CONNECTED;) {
			pf_progress(group->context);
			pf_progress(group->others[i]);
		}
	}
}

static void group_poll(struct group *group)
{
	pf_progress(group->context);
	pf_progress(group->others[0]);
	pf_progress(group->others[1]);
}

static void group_close(struct group *group)
{
	pf_close(group->context);
	pf_close(group->others[0]);
	pf_close(group->others[1]);
	free(group->local);
	free(group->remote);
}

static void count_done(pf_context *context, const pf_completion *completion)
{
	(void)context;
	assert_ok(completion->status);
	(*(unsigned *)completion->arg)++;
}

/* Open a group and begin a long get from the first peer, moved in runs of RUN bytes. */
static void group_open_long(struct group *group, void **state, bool *done)
{
	pf_options options = pair_mode_options(state);

	options.run_max = RUN;
	options.share_min = RUN;
	group_open(group, &options);
	assert_pending(pf_get(group->peers[0], group->local, remote_address(group->remote), LONG,
			      set_done, done));
}

/* A long transfer with one peer leaves every second run to a transfer with another. */
static void test_short_beside_long(void **state)
{
	struct group group;
	unsigned calls;

	group_open_long(&group, state, &group.done[0]);
	assert_pending(pf_get(group.peers[1], group.local + LONG,
			      remote_address(group.remote) + LONG, SHORT, set_done,
			      &group.done[1]));
	/* One run in each call, and at the next turn it is found to have ended. */
	for (calls = 0; !group.done[1] && calls < 2 * SHORT / RUN + 2; calls++)
		pf_progress(group.context);
	assert_true(group.done[1]);
	assert_false(group.done[0]);
	while (!group.done[0])
		pf_progress(group.context);
	assert_int_equal(pattern_differs(group.local, LONG, 1), LONG);
	group_close(&group);
}

/* An atomic does not wait for a run of a transfer, whichever peer that is with. */
static void test_atomic_beside_long(void **state)
{
	struct group group;
	size_t i;

	group_open_long(&group, state, &group.done[2]);
	for (i = 0; i < ARRAY_SIZE(group.peers); i++)
		assert_pending(pf_atomic(group.peers[i], PF_ATOMIC_ADD, 8,
					 remote_address(group.remote) + LONG + 64 * i, 1, 0,
					 set_done, &group.done[i]));
	/* Sent in the first call, answered, and taken note of in the second. */
	for (i = 0; i < 2; i++)
		group_poll(&group);
	assert_true(group.done[0]);
	assert_true(group.done[1]);
	assert_false(group.done[2]);
	while (!group.done[2])
		group_poll(&group);
	group_close(&group);
}

static unsigned moves;

static enum advanced move_counted(struct host_state *host, struct transfer *transfer)
{
	moves++;
	return route_stream.move(host, transfer);
}

/*
 * Each operation is looked at when it can begin and when it was answered, however many are open: not
 * in every call.
 */
static void test_many_open(void **state)
{
	static const struct route counted = { .move = move_counted };
	pf_options options = pair_mode_options(state);
	struct group group;
	struct host_peer *peer;
	unsigned i;

	group_open(&group, &options);
	peer = (struct host_peer *)group.peers[0];
	atomic_store(&peer->route, &counted);
	moves = 0;
	for (i = 0; i < GETS; i++)
		assert_pending(pf_get(group.peers[0], group.local + 16 * i,
				      remote_address(group.remote) + 8 * i, 8, count_done,
				      &group.count));
	/* The peer reads nothing: there is room for some, and the next is tried in each call. */
	for (i = 0; i < GETS; i++)
		pf_progress(group.context);
	assert_int_equal(group.count, 0);
	assert_in_range(moves, GETS, 2 * GETS);
	while (group.count < GETS)
		group_poll(&group);
	assert_in_range(moves, 2 * GETS, 4 * GETS);
	for (i = 0; i < GETS; i++)
		assert_memory_equal(group.local + 16 * i, group.remote + 8 * i, 8);
	group_close(&group);
}

/* A pager that supplies a page for each post. */
static sem_t pages;

static int supply_when_told(pf_context *context, uint64_t address, void *page, size_t length,
			    void *arg)
{
	(void)context;
	(void)address;
	(void)arg;
	memset(page, 3, length);
	sem_wait(&pages);
	return PF_OK;
}

/* The blocks of a transfer that wait for pages are few, and so is what waits at the owner. */
static void test_parked_blocks(void **state)
{
	pf_options options = pair_mode_options(state);
	const size_t length = 2 * TRANSFER_PARKED_MOST * PAGE;
	uint8_t *paged = test_map(length);
	const struct transfer *transfer;
	struct group group;
	pf_pager *pager;
	unsigned i;

	options.block_size = PAGE;
	options.policy = PF_POLICY_TOUCH;
	options.share_min = RUN;
	group_open(&group, &options);
	sem_init(&pages, 0, 0);
	if (pf_pager_register(group.others[0], paged, length, supply_when_told, NULL, &pager) !=
	    PF_OK) {
		group_close(&group);
		munmap(paged, length);
		skip();
	}
	assert_pending(pf_get(group.peers[0], group.local, remote_address(paged), length, set_done,
			      &group.done[0]));
	for (i = 0; i < 4 * TRANSFER_PARKED_MOST; i++)
		pf_progress(group.context);
	transfer = (struct transfer *)group.context->operations.active.next;
	assert_int_equal(transfer->parked, TRANSFER_PARKED_MOST);
	for (i = 0; i < 4 * TRANSFER_PARKED_MOST; i++)
		sem_post(&pages);
	while (!group.done[0])
		group_poll(&group);
	for (i = 0; i < length; i++)
		assert_int_equal(group.local[i], 3);
	pf_pager_unregister(pager);
	group_close(&group);
	munmap(paged, length);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_MODE_UNLESS(either, test_short_beside_long, DEFAULT),
		IN_MODE_UNLESS(either, test_atomic_beside_long, DEFAULT),
		IN_MODE_UNLESS(either, test_many_open, STREAM),
		IN_MODE_UNLESS(either, test_parked_blocks, DEFAULT),
	};

	return pair_run_tests("turns", tests);
}
