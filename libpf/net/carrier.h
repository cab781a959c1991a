/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between what drives packets and what carries packets: UDP sockets (sockets.h), or a
 * driver of an adapter. A carrier knows packets, addresses, and ends of paths that the carrier made.
 * A carrier knows no associations, peers or messages.
 *
 * Threads: one thread at a time drives, and calls look, receive, send and report, under a lock. Any
 * thread with the lock calls packet_most. One thread at a time calls watch, perhaps beside the
 * driving thread. Any thread calls the rest but close.
 */
#ifndef PF_NET_CARRIER_H
#define PF_NET_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/address.h"
#include "base/location.h"
#include "protocol/net.h"

/* Batches of one call of send. */
#define CARRIER_BATCHES 8
/* Bytes of a reason for having no carrier, or of the interfaces. */
#define CARRIER_WHY 192

/* Reason for not sending a batch. */
enum carrier_stop {
	CARRIER_SENT,
	CARRIER_FULL,     /* nothing fits now */
	CARRIER_FAULT,    /* memory of the batch cannot be read */
	CARRIER_TOO_LONG, /* longer than packet_most, which has the present value */
};

/* Report of the network about packets sent. */
struct carrier_report {
	struct net_endpoint to;
	bool refused;             /* packets to the endpoint are rejected */
	enum net_refusal refusal; /* origin of the rejection */
	uint32_t most;            /* bytes of the longest packet to the endpoint; 0: not told */
};

/* Arguments of the open function of a carrier. */
struct carrier_setup {
	const pf_options *options;
	const struct location *here; /* location of the calling thread */
	net_gather_fn gather;        /* reads memory that may be absent: payloads in wrong places */
	void *user;                  /* argument of gather */
};

/*
 * A carrier: the first member of the structure that its open function makes. The lock of the driving
 * thread protects the fields below "credit".
 */
struct carrier {
	const struct carrier_operations *operations;
	int descriptor;   /* readable while watched and packets or reports are there */
	uint32_t credit;  /* bytes of packets, by wire_charge, that wait here without a loss */
	uint64_t dropped; /* packets dropped for lack of room, by the count of the carrier */
	bool reports;     /* reports may be there to be taken */
	bool places;      /* receive puts payloads to places: predictions are of use */
};

struct carrier_operations {
	void (*close)(struct carrier *carrier);

	/* Put the ends of paths to this process into its address. */
	void (*publish)(const struct carrier *carrier, struct address *address);
	/*
	 * Find paths to the owner of an address, on this host or another. The first path opens the
	 * association. Return the number of paths.
	 */
	unsigned (*find)(const struct carrier *carrier, const struct address *address,
			 bool same_host, struct net_endpoint paths[NET_PATHS_MOST]);
	/* Do two paths from one end here lead to one host? */
	bool (*same_host)(const struct net_endpoint *one, const struct net_endpoint *other);
	/* Describe a path, for a user. Return the length of the text. */
	size_t (*describe)(const struct carrier *carrier, const struct net_endpoint *to, char *text,
			   size_t size);
	/* Return the bytes of the longest packet that can leave for an end. */
	size_t (*packet_most)(const struct carrier *carrier, const struct net_endpoint *to);

	/*
	 * Begin a look for packets. thorough: look everywhere, and tell for how long packets
	 * waited, because the last look was long ago, or because the descriptor woke the thread.
	 */
	void (*look)(struct carrier *carrier, bool thorough);
	/*
	 * Receive packets, valid until the next call. With places (net_predict), payloads may go to
	 * the places, behind a header of so many bytes. Return the number of packets; PF_ERR_FAULT
	 * if a place could not be written or read, and packets are lost; 0 at the end of a round,
	 * in which each queue of packets had a turn. The next call begins another round. Never
	 * wait.
	 */
	int (*receive)(struct carrier *carrier, const struct net_place *places, unsigned count,
		       uint32_t header, struct net_packet **packets);
	/*
	 * Send at most CARRIER_BATCHES batches, in order. Return the number of batches sent, and
	 * set *stop to the reason for not sending the next. A batch refused by the network counts
	 * as sent and lost.
	 */
	unsigned (*send)(struct carrier *carrier, const struct net_batch *batches, unsigned count,
			 enum carrier_stop *stop);
	/*
	 * Take a report. woken: the descriptor woke a thread, and there was no packet. Return false
	 * if none is left.
	 */
	bool (*report)(struct carrier *carrier, bool woken, struct carrier_report *report);

	/*
	 * Begin to keep the descriptor up to date, or end. An end may make packets cheaper. Return
	 * false without memory for it.
	 */
	bool (*watch)(struct carrier *carrier, bool watched);
	/* Wait for a packet for at most this time, watched or not. */
	void (*wait)(const struct carrier *carrier, const struct timespec *time);
};

#endif
