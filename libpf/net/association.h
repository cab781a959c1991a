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
#include "path.h"
#include "stream.h"
#include "transfer.h"

#define CONTROL_RING (16u << 10)
#define MESSAGE_RING (256u << 10)
#define MESSAGE_SPARE (NET_MESSAGE_MOST + 64)
#define GRANULES 64

_Static_assert(!(CONTROL_RING & (CONTROL_RING - 1)) && !(MESSAGE_RING & (MESSAGE_RING - 1)),
	       "rings are found by a mask");

enum association_state { KNOWN, OPENING, ACCEPTED, OPEN, GONE };
enum { STREAM_CONTROL, STREAM_MESSAGE, STREAMS };

struct busy {
	struct stream_out out[STREAMS];
	struct stream_in in[STREAMS];
	struct transfers transfers;
	uint64_t credit_told;  /* end of the message stream last told to the peer */
	uint64_t credit_probe; /* when to ask for credit again */
	uint64_t used;         /* when last */
};

struct net_association {
	struct net_core *core;
	void *user;
	struct busy *busy;
	struct net_association *next_id; /* of the core's table */
	struct net_association *next_ready;
	uint32_t index, peer_index;
	uint32_t place;  /* in the deadlines, 0: not there */
	uint32_t credit; /* bytes the peer takes on a path */
	uint32_t block_size;
	uint8_t state;
	bool ready; /* in the core's queue */
	bool accepter;
	bool welcome;     /* to be sent */
	bool ping;        /* to be sent */
	bool goodbye;     /* to be sent */
	bool closing;     /* the user let go of it: to be freed when it has nothing to send */
	bool undelivered; /* in the core's list */
	bool told;        /* that it did not answer */
	uint8_t paths_count, refusals;
	uint8_t refusal; /* the last one: enum net_refusal */
	uint64_t deadline;
	uint64_t heard;   /* when last */
	uint64_t silent;  /* since when an answer is due, NET_NEVER: none */
	uint64_t refused; /* since when, 0: not */
	uint64_t incarnation;
	uint8_t id[NET_ID_BYTES];
	struct auth_keys sending, receiving;
	uint64_t positions[2 * STREAMS]; /* of the streams, while not busy: out, in */
	uint64_t message_limit;          /* up to which the peer has room */
	struct transfer_numbers numbers;
	struct net_association *next_undelivered;
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

/* info: what is said to whom it opens. */
struct net_association *association_new(struct net_core *core, const uint8_t id[NET_ID_BYTES],
					const void *info, size_t length);
/* Both ends have what they share. */
void association_opened(struct net_association *association);
void association_free(struct net_association *association);
/* Something is to be started: have the buffers, and open if need be. PF_OK or why not. */
int association_use(struct net_association *association);
/* It is busy: has it anything to send, or sent and not acknowledged? */
bool association_outgoing(const struct net_association *association);
/* Something happened to it: have it looked at by net_output. */
void association_wake(struct net_association *association);
void association_unready(struct net_association *association);
/* It ends, for this reason: what waits completes, gone is called. */
void association_fail(struct net_association *association, int status, const char *why);
/* Why it is not open yet: what came instead of an answer. */
const char *association_unanswered(const struct net_association *association);
/* Its messages were handed out, the last thing that one that is GONE is kept for. */
void association_delivered(struct net_association *association);
struct path *association_path(struct net_association *association, unsigned number,
			      const struct net_endpoint *to);
uint64_t association_deadline(const struct net_association *association);
void association_advance(struct net_association *association, uint64_t now);
/* Sent something that wants an answer. */
void association_asked(struct net_association *association, uint64_t now);
void association_heard(struct net_association *association, uint64_t now);
/* What the paths' events do to it. It is busy. */
struct path_events association_events(struct net_association *association);
/* Messages were sent or credit came. */
void association_credit(struct net_association *association, uint64_t now);
/* Does it get no answer on this path, but on another one? Then it only probes there. */
bool association_doubts(const struct net_association *association, const struct path *path);
/* Of those not tried (bits) one that answers, with the most room; NET_PATHS_MOST: none. */
unsigned association_best_path(const struct net_association *association, unsigned tried);
/* Time until the next HELLO. */
uint64_t association_hello_delay(const struct net_association *association);

/* Opening (open.c). packet is authentic as to its length only. */
void open_hello(struct net_core *core, uint64_t now, uint8_t *packet, size_t length,
		const struct wire_header *header, const struct net_endpoint *from);
void open_welcome(struct net_core *core, uint64_t now, uint8_t *packet, size_t length,
		  const struct wire_header *header);
/* Write a HELLO or WELCOME that is due, for this path; its length. */
size_t open_output(struct net_association *association, unsigned path, uint64_t now,
		   uint8_t *packet);

/* Messages (message.c). False: the peer broke the rules. */
bool message_deliver(struct net_association *association);
bool message_arrived(struct net_association *association, uint64_t position, uint8_t *bytes,
		     uint32_t length, bool *taken);

#endif
