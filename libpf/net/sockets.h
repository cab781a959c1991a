/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All UDP sockets of a network: a first socket for each interface in use, and a second socket for
 * the peer that alone sends for long.
 *
 * The driving thread alone calls sockets_look, sockets_receive, sockets_send and sockets_report.
 */
#ifndef PF_NET_SOCKETS_H
#define PF_NET_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "endpoint.h"
#include "interface.h"
#include "protocol/net.h"
#include "socket.h"

#define SOCKETS_MOST (2 * INTERFACES_MOST)

struct sockets {
	struct interfaces interfaces;
	/* A first socket for each interface, then a second socket for each. */
	struct socket list[SOCKETS_MOST];
	struct receiver *receiver;
	int descriptor;             /* epoll descriptor: holds the sockets while watched */
	uint32_t credit;            /* least credit of all sockets, bytes; as of wire_charge */
	uint64_t dropped;           /* datagrams dropped for lack of room */
	bool complaining;           /* reports may be there to be taken */
	const struct socket *heard; /* socket of the last packets */
	/* The present look: */
	uint64_t look;     /* number of the look */
	bool thorough;     /* all sockets are due */
	unsigned at, left; /* next socket to be read, and number of sockets left */
	unsigned calls;    /* receive calls for the socket */
};

struct sockets_setup {
	const pf_options *options;
	const struct location *here; /* location of the calling thread */
	net_gather_fn gather;        /* reads payloads in wrong places, as receiver_create says */
	void *user;
};

/*
 * Open sockets on the interfaces chosen by the options. Return PF_ERR_UNREACHABLE with the reason
 * in *why if there is none, or PF_ERR_SYSTEM, or PF_ERR_MEMORY.
 */
int sockets_open(struct sockets **result, const struct sockets_setup *setup, char *why,
		 size_t size);
void sockets_close(struct sockets *sockets);

/* Put the ends of paths to this process into its address. */
void sockets_publish(const struct sockets *sockets, struct address *address);
/* Return the bytes of the longest packet that can leave for an end. */
size_t sockets_packet_most(const struct sockets *sockets, const struct net_endpoint *to);

/*
 * Begin a look for packets with this number. thorough: look at all sockets, and ask when packets
 * arrived, because the last look was long ago, or because the descriptor woke the thread.
 */
void sockets_look(struct sockets *sockets, uint64_t number, bool thorough);
/*
 * Receive packets of a socket. With places (net_predict), payloads may go to the places. Return the
 * number of packets; PF_ERR_FAULT if a place could not be written or read, and the packets are
 * lost; 0 after all sockets had a turn, before the next call gives each socket a turn again.
 */
int sockets_receive(struct sockets *sockets, const struct net_place *places, unsigned count,
		    uint32_t header, struct net_packet **packets);
/*
 * Send batches, in order. Return the number of batches sent. *stopped: the reason for not sending
 * the next batch.
 */
unsigned sockets_send(struct sockets *sockets, struct net_batch *batches, unsigned count,
		      enum socket_sent *stopped);
/*
 * Take a report of the network. woken: the descriptor woke a thread, and there was no packet.
 * Return false if none is left.
 */
bool sockets_report(struct sockets *sockets, bool woken, struct socket_complaint *report);

/*
 * Make the descriptor readable while packets or reports are there, or leave the descriptor alone
 * again: a packet to a watched socket takes 0.4 us longer. Return false without memory for epoll.
 * One thread at a time, beside the driving thread.
 */
bool sockets_watch(struct sockets *sockets, bool watched);
/* Any thread: wait for a packet, watched or not. */
void sockets_wait(const struct sockets *sockets, const struct timespec *time);

#endif
