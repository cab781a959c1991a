/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An association with another process:
 *
 *   KNOWN -> OPENING (HELLO sent) -> OPEN -> GONE
 *   KNOWN, OPENING or new -> ACCEPTED (HELLO received, WELCOME sent) -> OPEN
 *
 * struct busy has the state for anything under way. The first use makes a struct busy,
 * and idle_release ns without use free it.
 */
#ifndef PF_NET_ASSOCIATION_H
#define PF_NET_ASSOCIATION_H

#include "auth.h"
#include "exchange.h"

#include "base/check.h"

enum association_news { NEWS_UNANSWERED = 1, NEWS_GONE = 2 };
enum association_state { KNOWN, OPENING, ACCEPTED, OPEN, GONE };

struct busy {
	struct exchange exchange;
	uint64_t used; /* time of the last use, ns */
};

/*
 * State shared with another process. The caller of the core holds the lock that protects all
 * associations of the core (net.h; in libpf network.lock, net/network.h). The core knows no threads.
 */
struct net_association {
	struct shared *shared;
	void *user;
	struct busy *busy;
	/* Of the core: */
	struct net_association *next_id; /* next with an equal hash of the id */
	STAILQ_ENTRY(net_association) next_ready;
	uint64_t deadline;
	uint32_t index;
	uint32_t place; /* index in schedule.due, 0: no deadline */

	uint32_t peer_index;
	uint32_t credit; /* bytes accepted by the peer on a path */
	uint32_t block_size;
	int status; /* GONE: result for the user */
	bool ready; /* in schedule.ready */
	uint8_t state;
	bool accepter;
	bool wants_output : 1; /* output is to look for something to send */
	bool blocked : 1;      /* has something to send that may not go yet */
	bool goodbye : 1;      /* GOODBYE is to be sent */
	uint8_t goodbye_path;  /* path of the GOODBYE */
	bool welcome;          /* WELCOME is to be sent */
	bool ping;             /* PING is to be sent */
	bool closing;          /* closed by the user: free it when GOODBYE was sent */
	bool told;             /* the user was told that no answer came within contact_timeout */
	uint8_t news;          /* news for the user: bits of enum association_news */
	uint16_t heard_in;     /* period of senders in which the peer last counted as a sender */
	uint8_t paths_count, refusals;
	uint8_t refusal; /* last refusal: enum net_refusal */
	uint8_t id[NET_ID_BYTES];
	const char *why; /* GONE: reason for the user */
	STAILQ_ENTRY(net_association) next_news;
	uint64_t heard;   /* time of the last packet of the peer; GONE: of the last GOODBYE sent */
	uint64_t silent;  /* time since when an answer is due, NET_NEVER: no answer is due */
	uint64_t refused; /* time of the first refusal since the last packet, 0: not refused */
	struct auth_keys sending, receiving;
	struct exchange_rest rest;
	struct path *paths[NET_PATHS_MOST];
	struct opening *opening; /* until OPEN or GONE */
};

/* State of an association until both ends have session keys. */
struct opening {
	uint64_t hello_due, hello_sent;
	uint8_t hellos;       /* HELLOs sent without an answer */
	uint8_t welcome_path; /* path of the WELCOME */
	uint16_t info_length;
	uint8_t nonce[WIRE_NONCE], peer_nonce[WIRE_NONCE];
	/* Of the opener: */
	uint8_t key[NET_KEY_BYTES];
	uint8_t welcome_key[AUTH_HASH_KEY]; /* key of the tag of the WELCOME */
	uint8_t info[];                     /* info_length bytes for the accepter */
};

/* Make an association, without an index yet. info: bytes for the accepting process. */
struct net_association *association_new(struct shared *shared, const uint8_t id[NET_ID_BYTES],
					const void *info, size_t length);
/* Enter OPEN: both ends have session keys. */
void association_opened(struct net_association *association);
void association_free(struct net_association *association);
/* Begin a use: get the buffers, and open the association if necessary. PF_OK or the error. */
int association_use(struct net_association *association);
/* Has the busy association anything to send, or sent and not acknowledged? */
bool association_outgoing(const struct net_association *association);
/* Carry out the effects of the exchange, but for output (wants_output), and return the effects. */
uint8_t association_settle(struct net_association *association);
/* Enter GONE with a status and a reason: operations complete, and the user is told. */
void association_fail(struct net_association *association, int status, const char *why);
/* Have a GOODBYE sent by path; the association ends or is GONE. */
void association_say_goodbye(struct net_association *association, unsigned path);
/* Is the association closed, and nothing left to send? Then net_advance frees the association. */
bool association_is_over(const struct net_association *association);
/* Is the association GONE here, and may the peer still be OPEN? */
bool association_is_half_open(const struct net_association *association);
/* All messages in the ring were taken: free the buffers if GONE. */
void association_delivered(struct net_association *association);
struct path *association_path(struct net_association *association, unsigned number,
			      const struct net_endpoint *to);
uint64_t association_deadline(const struct net_association *association);
void association_advance(struct net_association *association, uint64_t now);
/* Is an acknowledgement due by time? */
bool association_owes(const struct net_association *association, uint64_t time);
/* Make acknowledgements that are due by time due now. */
void association_acknowledge(struct net_association *association, uint64_t time);
/* Make all acknowledgements due now, and probe soon for those that the peer delays. */
void association_linger(struct net_association *association);
/* Note that packets to the peer are rejected. */
void association_refused(struct net_association *association, enum net_refusal refusal);
/* Reason why the association is not open yet: a noun phrase. */
const char *association_unanswered(const struct net_association *association);
/* Note the sending of a packet that wants an answer. */
void association_asked(struct net_association *association, uint64_t now);
void association_heard(struct net_association *association, uint64_t now);
/* Take back the packets of an unsent batch. */
void association_unsent(struct net_association *association, const struct net_batch *batch,
			bool unreadable);
/* Callbacks for the events of paths. The association is busy. */
struct path_events association_events(struct net_association *association);
/*
 * Does the path bring no answer, lately or at all, while another path does? Then the association
 * only probes the path, as long as the association is busy.
 */
bool association_doubts(const struct net_association *association, const struct path *path);
/* Best path not in tried (bits): few time-outs, then least in flight; NET_PATHS_MOST: none. */
unsigned association_best_path(const struct net_association *association, unsigned tried);
/* Time until the next HELLO, ns. */
uint64_t association_hello_delay(const struct net_association *association);
/* Receive credit of a path now, as wire_charge counts. */
uint32_t association_receive_credit(const struct net_association *association);
size_t association_memory(const struct net_association *association);

/* Set whether the association has something to send that may not go yet, and count it. */
static inline void association_set_blocked(struct net_association *association, bool blocked)
{
	assert_that(!association->blocked || association->shared->blocked);
	association->shared->blocked += (uint32_t)blocked - association->blocked;
	association->blocked = blocked;
}

static inline struct exchange *association_exchange(struct net_association *association)
{
	assert_that(association->busy);
	return &association->busy->exchange;
}

#endif
