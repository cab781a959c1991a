/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An association with another process:
 *
 *   KNOWN -> OPENING (HELLO sent) -> OPEN -> GONE
 *   KNOWN, OPENING or new -> ACCEPTED (HELLO came, WELCOME sent) -> OPEN
 *
 * What it needs while something is under way is in its struct busy, which comes
 * with the first use and goes after some idle time.
 */
#ifndef PF_NET_ASSOCIATION_H
#define PF_NET_ASSOCIATION_H

#include "auth.h"
#include "exchange.h"

enum association_news { NEWS_UNANSWERED = 1, NEWS_GONE = 2 };
enum association_state { KNOWN, OPENING, ACCEPTED, OPEN, GONE };

struct busy {
	struct exchange exchange;
	uint64_t used; /* when last */
};

struct net_association {
	struct shared *shared;
	void *user;
	struct busy *busy;
	/* The core's: */
	struct net_association *next_id; /* of its table */
	struct net_association *next_ready;
	uint64_t deadline;
	uint32_t index;
	uint32_t place; /* in the deadlines, 0: not there */

	uint32_t peer_index;
	uint32_t credit; /* bytes the peer takes on a path */
	uint32_t block_size;
	int status; /* GONE: why, for the user */
	bool ready; /* in the core's queue */
	uint8_t state;
	bool accepter;
	bool wants_output : 1; /* look for something to send */
	bool blocked : 1;      /* has something to send that may not go yet */
	bool goodbye : 1;      /* to be sent, */
	uint8_t goodbye_path;  /* and where */
	bool welcome;          /* to be sent */
	bool ping;             /* to be sent */
	bool closing;          /* the user let go of it: to be freed when GOODBYE was sent */
	bool told;             /* that it did not answer */
	uint8_t news;          /* for the user: enum association_news */
	uint16_t heard_in;     /* the period of senders when something was last heard */
	uint8_t paths_count, refusals;
	uint8_t refusal; /* the last one: enum net_refusal */
	uint8_t id[NET_ID_BYTES];
	const char *why; /* GONE */
	STAILQ_ENTRY(net_association) next_news;
	uint64_t heard;   /* when last; GONE: when something was last answered */
	uint64_t silent;  /* since when an answer is due, NET_NEVER: none */
	uint64_t refused; /* since when, 0: not */
	struct auth_keys sending, receiving;
	struct exchange_rest rest;
	struct path *paths[NET_PATHS_MOST];
	struct opening *opening; /* until it is OPEN or GONE */
};

/* What is needed until both ends have what they share. */
struct opening {
	uint64_t hello_due, hello_sent;
	uint8_t hellos;       /* sent without an answer */
	uint8_t welcome_path; /* where it is to go */
	uint16_t info_length;
	uint8_t nonce[WIRE_NONCE], peer_nonce[WIRE_NONCE];
	/* The opener's: */
	uint8_t key[NET_KEY_BYTES];
	uint8_t welcome_key[AUTH_HASH_KEY]; /* of the answer */
	uint8_t info[];                     /* info_length */
};

/* info: what is said to whom it opens. It has no index yet. */
struct net_association *association_new(struct shared *shared, const uint8_t id[NET_ID_BYTES],
					const void *info, size_t length);
/* Both ends have what they share. */
void association_opened(struct net_association *association);
void association_free(struct net_association *association);
/* Something is to be started: have the buffers, and open if need be. PF_OK or why not. */
int association_use(struct net_association *association);
/* It is busy: has it anything to send, or sent and not acknowledged? */
bool association_outgoing(const struct net_association *association);
/* Do what its exchange asked for; what remains is wants_output. Returns the effects there were. */
uint8_t association_settle(struct net_association *association);
/* It ends, for this reason: what waits completes, and the user is told. */
void association_fail(struct net_association *association, int status, const char *why);
/* Say GOODBYE, by this path: it ends, or is GONE. */
void association_say_goodbye(struct net_association *association, unsigned path);
/* Has the user let go of it, and is there nothing to be sent? Then it is due, to be freed. */
bool association_is_over(const struct net_association *association);
/* Is it GONE here, and may its peer take it for OPEN? */
bool association_is_half_open(const struct net_association *association);
/* Its messages were taken, the last thing that one that is GONE is kept for. */
void association_delivered(struct net_association *association);
struct path *association_path(struct net_association *association, unsigned number,
			      const struct net_endpoint *to);
uint64_t association_deadline(const struct net_association *association);
void association_advance(struct net_association *association, uint64_t now);
/* Is an acknowledgement due by that time? */
bool association_owes(const struct net_association *association, uint64_t time);
/* Those that are due by that time are due now. */
void association_acknowledge(struct net_association *association, uint64_t time);
/* All are due now, and the peer is asked soon for what it owes. */
void association_linger(struct net_association *association);
/* Packets to it are rejected. */
void association_refused(struct net_association *association, enum net_refusal refusal);
/* Why it is not open yet: what came instead of an answer. */
const char *association_unanswered(const struct net_association *association);
/* Sent something that wants an answer. */
void association_asked(struct net_association *association, uint64_t now);
void association_heard(struct net_association *association, uint64_t now);
/* These packets were not sent. */
void association_unsent(struct net_association *association, const struct net_batch *batch,
			bool unreadable);
/* What the paths' events do to it. It is busy. */
struct path_events association_events(struct net_association *association);
/*
 * Does it get no answer on this path, lately or at all, but on another one? Then it only probes
 * there, as long as it is busy.
 */
bool association_doubts(const struct net_association *association, const struct path *path);
/* Of those not tried (bits) one that answers, with the most room; NET_PATHS_MOST: none. */
unsigned association_best_path(const struct net_association *association, unsigned tried);
/* Time until the next HELLO. */
uint64_t association_hello_delay(const struct net_association *association);
/* Receive credit of one path now, as wire_charge counts. */
uint32_t association_receive_credit(const struct net_association *association);
size_t association_memory(const struct net_association *association);

/* Does it have something to send that may not go yet? */
static inline void association_set_blocked(struct net_association *association, bool blocked)
{
	association->shared->blocked += (uint32_t)blocked - association->blocked;
	association->blocked = blocked;
}

static inline struct exchange *association_exchange(struct net_association *association)
{
	return &association->busy->exchange;
}

#endif
