/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a transport: a way to reach peers. Each peer has one transport, chosen by its
 * address. The context (context/transports.h) opens, polls, lets sleep and closes all transports;
 * the API calls the functions of a peer's transport. A function that a transport does not need is
 * NULL, unless the comment says "required".
 */
#ifndef PF_TRANSPORT_H
#define PF_TRANSPORT_H

#include <stdbool.h>

#include "base/address.h"
#include "base/slept.h"
#include <libpf/pf.h>

/* Operations of a transport, besides messages. */
enum operation_kind {
	OPERATION_PUT,
	OPERATION_GET,
	OPERATION_ATOMIC,
	OPERATION_SIGNAL, /* pf_put_signal whose data is in place: the signal is left */
};

/* How well a transport reaches an address; of several the greatest is taken, and the first of equals. */
enum transport_reach {
	TRANSPORT_UNREACHED,
	TRANSPORT_REACHED,
	TRANSPORT_REACHED_ALONE, /* the options exclude other transports for this address */
	TRANSPORT_EXCLUDED,      /* likewise, and the transport does not reach the address */
};

struct transport {
	/*
	 * Bytes of the state in a context, which is allocated with the context, and zeroed. 0: the
	 * transport has none, and its functions do not use the argument state.
	 */
	size_t state_size;

	/*
	 * Required: PF_OK, PF_ERR_UNREACHABLE for a context without this transport, with the reason in
	 * *why, or an error with nothing left open. Lowers context->send_max to the longest message.
	 */
	int (*open)(pf_context *context, void *state, const char **why);
	/* The context closes, the service thread still runs: wait until buffers are not in use. */
	void (*linger)(void *state);
	/* The service thread has ended: tell the peers, and end what may use memory of operations. */
	void (*disconnect)(void *state);
	/* Free all but the records of peers, which follow. */
	void (*close)(void *state);
	/* Any thread: add to the statistics of the context what was counted since. */
	void (*count)(void *state);

	/*
	 * Required, any thread: does the transport reach this address? *why: how, or why not; may be
	 * left alone if there is no reason to tell.
	 */
	enum transport_reach (*reach)(const void *state, const struct address *address,
				      const char **why);
	/*
	 * Required: as pf_peer_contact; *why may be left alone. A peer that failed for good is
	 * gone then.
	 */
	int (*contact)(pf_peer *peer, bool wait, const char **why);

	/* Progress: return how many things happened. Called once context->polled is set. */
	int (*poll)(void *state);
	/* Progress, after an empty poll: do events wake this process for all that is under way? */
	bool (*may_sleep)(void *state);
	/* Progress, with a sleep announced: is there anything to do after all? */
	bool (*has_news)(void *state);
	/* Progress, with a sleep announced, before has_news: have devices wake this process, too. */
	void (*prepare_sleep)(void *state);
	/* Progress, before a yield: make polls with cold caches cheap. NULL: nothing to do. */
	void (*prepare_yield)(void *state);
	/* Progress begins to sleep, or a waiter for progress; or the sleep is over. */
	void (*sleeps)(void *state, bool sleeps);
	/* Progress: does each peer wake a sleep with each message? */
	bool (*all_ring)(const void *state);
	/* Progress: a waiter will sleep. Have peers wake the waiter at once; false: too late. */
	bool (*allow_waiter)(void *state);

	/*
	 * Progress sleeps in the first transport of the table, in which other processes wake it. Required
	 * there: ns between the announcement and the sleep; announce a sleep, from which on every
	 * event wakes this process; sleep (also a thread in place of progress); take the announcement
	 * back; the same, and end all sleeps.
	 */
	uint64_t (*sleep_ahead)(const void *state);
	void (*sleep_announce)(void *state);
	enum slept (*sleep)(void *state, uint64_t microseconds);
	void (*sleep_leave)(void *state);
	void (*sleep_end)(void *state);

	/* Required: bytes of a record of a peer; struct pf_peer is the first member. */
	size_t peer_size;
	/* The record is zeroed, but for struct pf_peer. Both may be NULL. */
	void (*peer_init)(pf_peer *peer);
	void (*peer_destroy)(pf_peer *peer);
	/* Progress, of a peer that is gone: does the transport still refer to the record? */
	bool (*peer_in_use)(const pf_peer *peer);
	/* Progress: the record of a peer that is gone will be destroyed. */
	void (*peer_forget)(pf_peer *peer);
	/* Required: send as pf_send, or as pf_send_pack if pack is not NULL. */
	int (*send)(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
		    const void *payload, size_t length, pf_pack_fn pack, void *arg);
	/* Required, progress: would send take a message of this length, or fail for good? */
	bool (*has_room)(pf_peer *peer, size_t length);
	/*
	 * Required: post as pf_putv and pf_getv. length, of all pieces together, is not 0, and no
	 * address overflows. The pieces are the application's: a piece may be empty, an address may
	 * have a tag (base/tag.h).
	 */
	int (*transfer)(pf_peer *peer, enum operation_kind kind, const pf_piece *pieces,
			unsigned count, uint64_t length, pf_complete_fn complete, void *arg);
	/*
	 * Required: post as pf_put_signal, with valid arguments. No address has a tag.
	 * The piece may be empty.
	 */
	int (*put_signal)(pf_peer *peer, const pf_piece *piece, const pf_signal *signal,
			  pf_complete_fn complete, void *arg);
	/* Required: post as pf_atomic, with valid arguments. */
	int (*atomic)(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);
};

/* A transport in a context. */
struct transport_slot {
	const struct transport *transport;
	void *state;     /* NULL: the context has no such transport */
	const char *why; /* then: why not; valid until the context closes */
};

#define TRANSPORTS_MOST 4 /* in a context */

extern const struct transport transport_host;
extern const struct transport transport_net;

#endif
