/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ping-pong and a stream of messages between two ranks over UDP sockets: what
 * a transport in user space over UDP could reach if it had no cost of its own.
 * MPI exchanges the addresses and agrees where to continue after a loss.
 *
 * Messages have no headers: the kernel copies them once out of and once into
 * the buffers of the caller. So packets must arrive in order, and --validate
 * checks that they did. If packets of a round are lost, the round is started
 * again; its time until then is not counted.
 */
#ifndef BENCHMARK_UDP_H
#define BENCHMARK_UDP_H

#include <stddef.h>

struct udp;

/*
 * Collective over two ranks: make a pair of connected sockets. Returns NULL
 * and, on every rank, an error message.
 */
struct udp *udp_open(int rank, const char **error);
/* Collective. Rank 0 reports on stderr how many rounds were started again. */
void udp_close(struct udp *udp);

/* Print a line of the output: the addresses, and what a packet holds. */
void udp_describe(const struct udp *udp);

/* The messages of a round. */
struct udp_messages {
	const char *send;
	char *receive;
	size_t size;
	size_t stride; /* distance between messages in both buffers, bytes */
	int count;
};

/*
 * Collective: send a message from rank 0 to rank 1 and back, repeats times.
 * Returns the time of the complete rounds, s.
 */
double udp_ping_pong(struct udp *udp, const struct udp_messages *messages, int repeats);

/*
 * Collective: send count messages from rank 0 to rank 1, which acknowledges the
 * last byte, repeats times. Returns the time of the complete rounds, s. A
 * message that fits into a packet is one; longer messages are packets of the
 * full length, which end and begin wherever they do. Rank 1 also acknowledges
 * what arrived before, so that what is under way fits into its socket's buffer.
 */
double udp_stream(struct udp *udp, const struct udp_messages *messages, int repeats);

#endif
