/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path of an association: packet numbers in both directions, the packets under way,
 * and the state of the network learnt from acknowledgements.
 *
 * Loss is told by time, as in RACK (RFC 8985). A packet sent before a packet that
 * arrived is lost when the round trip of the later packet, and a reordering window,
 * have passed since the earlier packet was sent. The latest round trip counts, and not
 * an average, because a peer that waited for a processor is late with all packets.
 *
 * If nothing arrives for two round trips, a probe asks for an acknowledgement (RFC
 * 8985's TLP), and again after each time-out (RFC 9002's PTO). No packet is declared
 * lost before the peer answers.
 *
 * A peer delays the acknowledgement of whole messages for an answer. A path allows for
 * the delays seen lately, while this process has nothing more to send.
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
	SENT_FORGOTTEN, /* no longer waited for, fate unknown */
};
enum sent_kind { SENT_FRAMES, SENT_DATA_PUT, SENT_DATA_GET, SENT_PROBE };

/* The contents of a packet, needed if the packet is lost. */
struct sent {
	uint64_t time;                           /* of sending, ns */
	uint32_t number;                         /* low half of the packet number */
	uint32_t bytes;                          /* whole packet */
	uint64_t control;                        /* position in the control stream */
	uint64_t message;                        /* position in the message stream */
	uint16_t control_length, message_length; /* 0: nothing of the stream */
	uint8_t state, kind;
	bool prompt;  /* the packet asks for an acknowledgement soon, not only with an answer */
	bool streams; /* the packet has bytes of a stream */
	uint16_t granule, granules; /* DATA: first granule of the transfer, and number */
	uint32_t transfer;          /* DATA */
};

#define SENT_MOST WINDOW_NUMBERS
#define TIMEOUTS_DOUBTFUL 3 /* time-outs in a row after which different paths are used, if any */

struct path {
	struct net_endpoint to; /* where packets are sent */
	struct window window;   /* packet numbers received */
	struct congestion congestion;
	struct mtu mtu;
	struct sent *sent;  /* a ring by number, NULL while idle */
	uint32_t capacity;  /* records in the ring */
	uint32_t in_flight; /* bytes under way */
	uint32_t charged;   /* bytes of the receiver's credit in use: wire_charge */
	uint32_t spurious;  /* low half of next when a packet declared lost arrived */
	uint64_t next;      /* number of the next packet */
	uint64_t oldest;    /* number of the first packet under way, or next */
	uint64_t newest;    /* number above the largest acknowledged */
	uint64_t given_up;  /* number above all packets declared lost or forgotten */
	uint64_t asked; /* time when the last packet that asks for an acknowledgement was sent, ns */
	uint64_t loss_time; /* time when the next packet is lost by time, ns; NET_NEVER: none */
	uint64_t paced;     /* time before which no packet may be sent, ns; 0: none */
	uint64_t paid;      /* time up to which packets sent are paid for, ns: pacing */
	uint32_t patience;  /* ns by which packets declared lost arrived late */
	uint32_t rtt, variation; /* smoothed round trip and variation, ns */
	uint32_t trip;           /* round trip of packet newest - 1, ns */
	uint32_t marks;          /* CE marks reported by the peer */
	uint8_t pauses;          /* number of pauses reported by the receiver, modulo 256 */
	uint8_t timeouts : 7;    /* time-outs in a row */
	bool prompt : 1;         /* a prompt packet was sent since nothing was under way */
	uint8_t answer_wait; /* time that the peer delays an acknowledgement for an answer, ANSWER_UNITs */
	uint8_t tail_probes : 4; /* probes in a row, before time-outs */
	bool waited : 1;         /* the first probe asked while the peer may wait for an answer */
	bool reorders : 1;       /* the path reorders packets */
	bool answered : 1;       /* the peer sent WELCOME, and no number of pauses yet */
	bool probe : 1;          /* ask for an acknowledgement, even if the window is full */
};

/* Callbacks of the association, told of the fate of packets. */
struct path_events {
	/* A packet was acknowledged. */
	void (*taken)(void *association, struct path *path, const struct sent *sent);
	/* A packet was lost, or never left: send the contents again. */
	void (*lost)(void *association, struct path *path, const struct sent *sent);
	/* A packet declared lost arrived. */
	void (*spurious)(void *association, struct path *path, const struct sent *sent);
	void *association;
};

/* packet_most: longest packet of the interface, here and below. */
void path_init(struct path *path, const struct net_endpoint *to, size_t packet_most);
/* Lead the path to a new endpoint; the longest packet that passes is probed anew. */
void path_move(struct path *path, const struct net_endpoint *to, size_t packet_most);
/*
 * Begin a path without packets sent. senders: number of peers that send to the receiver. turn: a
 * number different for each sender, to divide time among all.
 */
void path_begin(struct path *path, uint64_t now, uint16_t senders, uint32_t turn, uint64_t target);
/* The receiver reported the number of senders, and of pauses. turn: see path_begin. */
void path_told(struct path *path, uint64_t now, uint16_t senders, uint8_t pauses, uint32_t turn);
/* Free the ring; nothing is under way. The path keeps up to TIMEOUTS_DOUBTFUL time-outs. */
void path_rest(struct path *path);
/* Return a record for the next packet; NULL: no memory or no room. path_sent counts the packet. */
struct sent *path_record(struct path *path);
/* Have a record for a further packet. If need be, forget the oldest and send the contents again. */
void path_make_room(struct path *path, uint64_t now, const struct path_events *events);
/* Count the packet of the last record as sent. asks: the packet asks for an acknowledgement. */
void path_sent(struct path *path, struct sent *sent, uint64_t now, uint32_t bytes, bool asks,
	       uint64_t target);
/*
 * Take back count packets from number on, because the packets never left. A probe asks for an
 * acknowledgement if nothing is under way any more. The numbers are not used again: after some
 * errors, part of the packets of a call may have left. A number stands for a single packet, in
 * acknowledgements and in encryption.
 */
void path_unsent(struct path *path, uint64_t number, uint32_t count, uint64_t target,
		 const struct path_events *events);
/*
 * Take an acknowledgement that reached the system at arrived. False: the frame acknowledges
 * packets never sent.
 */
bool path_acknowledge(struct path *path, const struct wire_frame *frame, uint64_t now,
		      uint64_t arrived, const struct net_options *options,
		      const struct path_events *events, struct net_statistics *statistics);
/* The peer answered HELLO after time ns: beside few flows, the path needs no first pause. */
void path_answered(struct path *path, uint64_t time);
/* Forget all packets under way; the contents are retransmitted, on different paths. */
void path_forget(struct path *path, uint64_t now, const struct path_events *events);
/* Declare losses by time, and probe after time-outs. may_wait: nothing more is to be sent. */
void path_advance(struct path *path, uint64_t now, const struct net_options *options, bool may_wait,
		  const struct path_events *events, struct net_statistics *statistics);
/* Return the time of the next path_advance, ns; NET_NEVER: none. */
uint64_t path_deadline(const struct path *path, const struct net_options *options, bool may_wait);
/*
 * Is more than half of the window or credit under way, or is there no room for a packet behind the
 * next? Then the next packet asks for an acknowledgement soon.
 */
bool path_is_half_used(const struct path *path, uint32_t credit);
/* May a packet be sent? bytes: length; credit: of the receiver; target: queueing delay, ns. */
bool path_open(struct path *path, uint64_t now, uint32_t bytes, uint32_t credit, uint64_t target);
/* Return the bytes of the longest packet to be sent now. */
uint32_t path_packet(const struct path *path);
/* A round trip took time ns. */
void path_sample(struct path *path, uint64_t time);

#endif
