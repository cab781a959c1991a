/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One path of an association: its packet numbers in both directions, what is
 * under way, and what that tells of the network. Loss is told by time, as in
 * RACK (RFC 8985): one that was sent before another that arrived is lost when a
 * round trip, the one that the other took, and a reordering window have passed
 * since. The round trip just seen, and not an average, counts because a peer
 * that had to wait for a processor is late with everything. When nothing
 * arrives for two round trips, a probe asks what did (RFC 8985's TLP), and again
 * after each time-out (RFC 9002's PTO); nothing is taken for lost before that is
 * answered. A peer lets the acknowledgement of whole messages wait for an answer;
 * for how long it did so lately is allowed for, if nobody here waits for it.
 */
#ifndef PF_NET_PATH_H
#define PF_NET_PATH_H

#include "congestion.h"
#include "mtu.h"
#include "window.h"

enum sent_state {
	SENT_NOTHING,
	SENT_UNDER_WAY,
	SENT_TAKEN,
	SENT_LOST,
	SENT_FORGOTTEN, /* to make room; neither lost nor taken, as far as known */
};
enum sent_kind { SENT_FRAMES, SENT_DATA_PUT, SENT_DATA_GET, SENT_PROBE };

/* What a packet carried, for when it is lost. */
struct sent {
	uint64_t time;
	uint32_t number; /* low half */
	uint32_t bytes;
	uint64_t place;   /* DATA: transfer; FRAMES: position in the control stream */
	uint64_t message; /* ... in the message stream */
	uint16_t control_length, message_length;
	uint8_t state, kind;
	bool prompt;                /* it is to be acknowledged soon, and not only with an answer */
	uint16_t granule, granules; /* DATA: the first one, of the transfer, and how many */
};

#define SENT_MOST WINDOW_NUMBERS
#define TIMEOUTS_DOUBTFUL 3 /* in a row, after which other paths are used, if there are any */

struct path {
	struct net_endpoint to;
	struct window window; /* receiving */
	struct congestion congestion;
	struct mtu mtu;
	struct sent *sent; /* a ring by number, NULL while idle */
	uint32_t capacity;
	uint32_t in_flight; /* bytes */
	uint32_t charged;   /* what these take of the receiver's credit */
	uint32_t spurious;  /* low half of next, when a packet came that had been declared lost */
	uint64_t next;      /* number of the next packet */
	uint64_t oldest;    /* first that is under way, or next */
	uint64_t newest;    /* first above the largest acknowledged */
	uint64_t given_up;  /* first above all that were declared lost or forgotten */
	uint64_t asked;     /* when the last packet that wants an answer was sent */
	uint64_t loss_time; /* when the next one is lost by time; NET_NEVER */
	uint64_t paced;     /* nothing before this, 0: any time */
	uint64_t paid;      /* up to when what was sent is paid for by time */
	uint32_t patience;  /* ns by which such packets were late */
	uint32_t rtt, variation; /* ns */
	uint32_t trip;           /* that newest - 1 took, ns */
	uint32_t marks;          /* the peer reported */
	uint8_t pauses;          /* that the receiver told of */
	uint8_t timeouts : 7;    /* in a row */
	bool prompt : 1;         /* since nothing was under way, something was sent that is */
	uint8_t answer_wait; /* ANSWER_UNITs that the peer let an acknowledgement wait for an answer */
	uint8_t tail_probes : 4; /* before time-outs */
	bool waited : 1;         /* ... the first one for an answer to what is under way */
	bool reorders : 1;       /* packets overtake each other here */
	bool answered : 1;       /* by WELCOME, and told of no pauses yet */
	bool probe : 1;          /* ask what arrived, although the window is full */
};

/* What becomes of packets: given by the association, which knows their contents. */
struct path_events {
	void (*taken)(void *association, struct path *path, const struct sent *sent);
	void (*lost)(void *association, struct path *path, const struct sent *sent);
	/* It was declared lost, and arrived. */
	void (*spurious)(void *association, struct path *path, const struct sent *sent);
	void *association;
};

void path_init(struct path *path, const struct net_endpoint *to, size_t packet_most);
/* It leads elsewhere from now on; the longest packet that passes is found anew. */
void path_move(struct path *path, const struct net_endpoint *to, size_t packet_most);
/*
 * Nothing was sent yet, and the receiver hears so many senders. turn: a number that differs
 * between these, to divide the time by.
 */
void path_begin(struct path *path, uint64_t now, uint16_t senders, uint32_t turn, uint64_t target);
/* The receiver hears so many senders, and has told them so many times to pause. turn: as above. */
void path_told(struct path *path, uint64_t now, uint16_t senders, uint8_t pauses, uint32_t turn);
/* Give the ring back; nothing is under way. That the path did not answer is not forgotten. */
void path_rest(struct path *path);
/* A record for the next packet, NULL if there can be none more. Not counted before path_sent. */
struct sent *path_record(struct path *path);
/* Have a record for one more, if need be by waiting for the oldest no more: it is sent again. */
void path_make_room(struct path *path, uint64_t now, const struct path_events *events);
void path_sent(struct path *path, struct sent *sent, uint64_t now, uint32_t bytes, bool asks,
	       uint64_t target);
/*
 * Take back count packets from number on: they never left. What they asked is asked again. Their
 * numbers are not used again: after some errors, part of the packets of a call may have left, and
 * a number stands for one packet, in acknowledgements and in what encrypts it.
 */
void path_unsent(struct path *path, uint64_t number, uint32_t count, uint64_t target,
		 const struct path_events *events);
/* It reached the system when arrived. False: an acknowledgement of what was never sent. */
bool path_acknowledge(struct path *path, const struct wire_frame *frame, uint64_t now,
		      uint64_t arrived, const struct net_options *options,
		      const struct path_events *events, struct net_statistics *statistics);
/* The peer answered when it was opened, after that time: few flows need no pause at first. */
void path_answered(struct path *path, uint64_t time);
/* Nothing of it is waited for any more: it goes other ways. */
void path_forget(struct path *path, uint64_t now, const struct path_events *events);
/* Loss by time, and time-outs. may_wait: nothing more is to be sent. */
void path_advance(struct path *path, uint64_t now, const struct net_options *options, bool may_wait,
		  const struct path_events *events, struct net_statistics *statistics);
uint64_t path_deadline(const struct path *path, const struct net_options *options, bool may_wait);
/*
 * Is half of what may be under way, or is there no room for a packet behind the next one? Then that asks for an
 * acknowledgement.
 */
bool path_is_half_used(const struct path *path, uint32_t credit);
/* May a packet of so many bytes be sent? credit: the receiver's; target: of queueing, ns. */
bool path_open(struct path *path, uint64_t now, uint32_t bytes, uint32_t credit, uint64_t target);
/* Bytes of the longest packet to be sent now. */
uint32_t path_packet(const struct path *path);
/* A round trip took so long, ns. */
void path_sample(struct path *path, uint64_t time);

#endif
