/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between hosts, without sockets, clock or threads: packets and
 * time go in, packets and one deadline come out. doc/wire.md is the format.
 *
 * A core is one process's end of all its associations. An association (the word
 * is SCTP's) is what two processes share: keys, one or several paths, a stream
 * of messages, transfers and atomics in both directions.
 *
 * Rules for the caller:
 *   - one thread at a time inside a core;
 *   - now is monotonic nanoseconds and never goes back;
 *   - what happens is taken as events (net_take), between calls of the others;
 *   - callbacks answer a question of the core, and must not call it;
 *   - addresses are this or the peer's process's, never followed by the core: the
 *     callbacks source, destination, place, place_many, fetch, gather and atomic do that.
 */
#ifndef PF_NET_H
#define PF_NET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "pf.h"

#define NET_ID_BYTES 16
#define NET_KEY_BYTES 32
#define NET_INFO_MOST 256     /* bytes about itself that a process tells whom it opens */
#define NET_PATHS_MOST 4      /* of one association */
#define NET_PACKET_MOST 65496 /* longest packet: what UDP over IPv4 carries, in eights */
#define NET_PACKET_LEAST 1200 /* every path carries that: RFC 8899, 5.1.2 */
#define NET_BATCH_MOST 64     /* packets for one call with UDP_SEGMENT */
#define NET_BATCH_BYTES 65000
#define NET_PIECES_MOST 64 /* written by one place_many */
#define NET_NEVER UINT64_MAX

struct net_core;
struct net_association;

/* How a packet is protected; both ends must be of one mind. */
enum net_auth {
	NET_AUTH_HEADER,  /* keyed hash over header and control section */
	NET_AUTH_FULL,    /* over the payload too */
	NET_AUTH_ENCRYPT, /* and all but the header encrypted */
};

/* What the receiver of a block does when the page is absent. */
enum net_fault_mode {
	NET_FAULT_NACK,   /* drops its packets, says so, and asks for them when the page is there */
	NET_FAULT_BACKUP, /* keeps them in the backup ring; when that is full, as NACK */
};

/* One end of a path as the socket side knows it: opaque to the core, compared as bytes. */
struct net_endpoint {
	uint8_t bytes[32];
};

struct net_options {
	uint8_t id[NET_ID_BYTES]; /* this process's name among all, those that ended too: random */
	uint8_t key[NET_KEY_BYTES]; /* admits to this process; from its address */
	enum net_auth auth;
	enum net_fault_mode fault_mode;
	uint32_t block_size;      /* unit of faults: a power of two from 4 KiB to 64 KiB */
	uint32_t backup_ring;     /* bytes of packets kept for faulted blocks, over all peers */
	uint32_t receive_buffer;  /* credit of all peers together on one socket: wire_charge */
	uint64_t peer_timeout;    /* ns of silence after which a peer is dead */
	uint64_t contact_timeout; /* ns without any answer after which a peer counts as silent */
	uint64_t refused_timeout; /* ns of the same, if its host says that no socket has the port */
	uint64_t keepalive;       /* ns between probes of a silent peer; 0: peer_timeout / 4 */
	uint64_t timeout_min;     /* ns, least retransmission time-out */
	uint64_t ack_delay;       /* ns for which an acknowledgement may wait for company */
	uint64_t answer_delay;    /* ... and one of whole messages, for an answer; below 16 ms */
	uint64_t queue_target;    /* ns of queueing delay that congestion control aims at */
	uint64_t idle_release;    /* ns after which an idle association gives back its buffers */
};

/* Defaults; id and key stay zero. */
void net_options_init(struct net_options *options);

enum net_side { NET_SOURCE, NET_DESTINATION, NET_ATOMIC };

/* Names what waits for memory; opaque, to be handed to net_resolved. */
struct net_token {
	uint32_t association, transfer;
	uint16_t block;
	uint8_t side, served;
	uint32_t generation;
};

/* A block that may have to wait for its pages. */
struct net_wait {
	struct net_token token;
	uint64_t address, length; /* the block, here: make it ready */
	uint64_t end;             /* of the transfer, as far as known: touch ahead up to here */
	bool write;
	bool suspect; /* the system could not read it when it was sent (net_unsent) */
};

struct net_completion {
	int status;        /* PF_OK or PF_ERR_* */
	enum pf_side side; /* PF_ERR_FAULT: whose memory, */
	uint64_t address;  /* and the address */
	uint64_t value;    /* atomics: the value before */
};

/*
 * Copy what count vectors name, one behind the other. False: some of it is there
 * no more, as the memory may be that a packet was received into.
 */
typedef bool (*net_gather_fn)(void *user, const struct iovec *from, unsigned count, void *to);

/* Bytes of the core, and where they belong in the user's memory. */
struct net_piece {
	uint64_t address;
	const void *bytes;
	uint32_t length;
};

/* What became of a block. */
enum net_block {
	NET_BLOCK_SENT,     /* to its last packet */
	NET_BLOCK_LOST,     /* packets of it were, and are sent again */
	NET_BLOCK_RESOLVED, /* its page fault here was, and it is waited for */
	NET_BLOCK_ARRIVED,  /* all of it */
};

/*
 * Operations on the user's memory. source, destination, place, fetch and atomic
 * return PF_OK, PF_ERR_AGAIN if the memory is absent (the user resolves wait's range
 * and calls net_resolved with wait's token, later and exactly once),
 * PF_ERR_FAULT with the address in *bad, or PF_ERR_MEMORY.
 */
struct net_memory_operations {
	/*
	 * Can [address, address + length) be read (written) without waiting?
	 * PF_ERR_REFUSED of destination: it can, but not by a receive call.
	 */
	int (*source)(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		      uint64_t *bad);
	int (*destination)(void *user, const struct net_wait *wait, uint64_t address,
			   uint32_t length, uint64_t *bad);
	/* Write bytes, without waiting. */
	int (*place)(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		     uint32_t length, uint64_t *bad);
	/*
	 * Write up to NET_PIECES_MOST pieces that destination found ready, together.
	 * Returns how many, from the first on, were written; the next ones are given to
	 * place, which finds what is wrong.
	 */
	unsigned (*place_many)(void *user, const struct net_piece *pieces, unsigned count);
	/* Copy bytes from there, without waiting. Not called with NET_AUTH_HEADER. */
	int (*fetch)(void *user, const struct net_wait *wait, uint64_t address, void *to,
		     uint32_t length, uint64_t *bad);
	/* Of payloads where net_predict had them received: they are read by nothing else. */
	net_gather_fn gather;
	/* Told for a trace; NULL: there is none. The address and length of wait are the block's. */
	void (*trace)(void *user, const struct net_wait *wait, enum net_block what);
	int (*atomic)(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		      uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad);
	void *user;
};

/* What else the core asks of its user. */
struct net_callbacks {
	/*
	 * A process that has our key opens an association. id and info are what it says of
	 * itself, unproved. Returns false to refuse it; *peer is then ignored.
	 */
	bool (*accept)(void *user, struct net_association *association,
		       const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
		       void **peer);
	/* Longest packet (UDP payload) that the interface towards that endpoint takes. */
	size_t (*packet_most)(void *user, const struct net_endpoint *endpoint);
	/* Random bytes for keys. */
	void (*random)(void *user, void *bytes, size_t length);
	void *user;
};

/* NULL: no memory, or a block_size that is not valid. All three are copied. */
struct net_core *net_create(const struct net_options *options,
			    const struct net_memory_operations *memory,
			    const struct net_callbacks *callbacks);
/* Peers are not told: call net_close_all and send its output first. */
void net_destroy(struct net_core *core);
/* Is there anything to be sent, or sent and not acknowledged, over all associations? */
bool net_busy(const struct net_core *core);
/* Bytes of messages that were not acknowledged, over all associations. */
uint64_t net_unacknowledged(const struct net_core *core);

/*
 * The association with the process of this id, made if there is none. key is
 * from the peer's address; info goes to its accept callback unencrypted. peer
 * is the caller's, see net_association_user. Sends nothing before first use.
 */
struct net_association *net_open(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const uint8_t key[NET_KEY_BYTES], const struct net_endpoint *to,
				 const void *info, size_t length, void *peer);
/* Another path, used together with the first; PF_ERR_ARGUMENT when there are too many. */
int net_path_add(struct net_association *association, const struct net_endpoint *to);
/* Open it now, without something to send. PF_OK or why not. */
int net_contact(struct net_association *association);
/* Has the peer answered, and does it know that it was heard? */
bool net_is_open(const struct net_association *association);
/* Has it never answered, within contact_timeout or until it was given up? */
bool net_is_silent(const struct net_association *association);
/*
 * It is not open: end it with PF_ERR_UNREACHABLE. What the peer sends to open it is
 * not answered any more, so that both ends come to the same result. why: as of
 * net_association_status, NULL: what came instead of an answer.
 */
void net_give_up(struct net_association *association, const char *why);
/* What came instead of an answer, of one that is not open: as net_association_status. */
const char *net_silence(const struct net_association *association);
/* The endpoint of a path, which may be missing in between. False: there is none. */
bool net_path_endpoint(const struct net_association *association, unsigned path,
		       struct net_endpoint *endpoint);
void *net_association_user(const struct net_association *association);
const uint8_t *net_association_id(const struct net_association *association);
/*
 * Of one that is gone. PF_OK: the peer said goodbye. PF_ERR_UNREACHABLE: it never
 * answered. PF_ERR_TIMEOUT: it did, and is silent. PF_ERR_PEER: its process ended.
 * PF_ERR_PROTOCOL: it broke the protocol. *why is a noun phrase that "from", and the
 * peer's address, can follow; static.
 */
int net_association_status(const struct net_association *association, const char **why);
/*
 * Say goodbye: what waits completes with PF_ERR_PEER. The pointer is dead after net_output was empty
 * and net_advance was called.
 */
void net_close(struct net_association *association);
void net_close_all(struct net_core *core);

/*
 * Start a transfer; its end is an event, with arg. Returns
 * PF_OK, PF_ERR_PEER, PF_ERR_MEMORY or PF_ERR_ARGUMENT. Any length.
 */
int net_put(struct net_association *association, uint64_t local, uint64_t remote, uint64_t length,
	    void *arg);
int net_get(struct net_association *association, uint64_t local, uint64_t remote, uint64_t length,
	    void *arg);
int net_atomic(struct net_association *association, enum pf_atomic_op op, unsigned width,
	       uint64_t remote, uint64_t operand, uint64_t compare, void *arg);

#define NET_MESSAGE_MOST ((128u << 10) + 256) /* header and payload */

/* A message; copied. PF_DONE, PF_ERR_AGAIN (no room: nothing was taken), PF_ERR_PEER, ... */
int net_send(struct net_association *association, uint8_t tag, const void *header,
	     size_t header_length, const void *payload, size_t payload_length);
/*
 * The same, but the payload is not copied before net_keep, which is to be called next
 * but for net_output and net_unsent: until then packets are sent from where it lies.
 */
int net_send_lent(struct net_association *association, uint8_t tag, const void *header,
		  size_t header_length, const void *payload, size_t payload_length);
void net_keep(struct net_core *core);
/* As net_send, with the payload written by pack. */
int net_send_pack(struct net_association *association, uint8_t tag, const void *header,
		  size_t header_length, size_t length, pf_pack_fn pack, void *arg);
/* Would net_send take a message of length bytes, or fail other than with PF_ERR_AGAIN? */
bool net_has_room(struct net_association *association, size_t length);

enum net_event_kind {
	NET_MESSAGE,
	NET_COMPLETION, /* of an operation */
	NET_UNANSWERED, /* the peer has not answered within contact_timeout; it is tried on */
	NET_GONE,       /* the peer; stays so until net_close */
};

struct net_event {
	enum net_event_kind kind;
	struct net_association *association; /* MESSAGE: it came from; UNANSWERED, GONE */
	uint8_t tag;                         /* MESSAGE */
	void *data;      /* ... aligned to 8, until the next net_take or net_input */
	size_t length;   /* ... of the message */
	unsigned pieces; /* ... 1: data has it; more: piece has, only with NET_LENT_PIECES */
	struct iovec piece[PF_PIECES_MOST];
	void *arg; /* COMPLETION: of the operation */
	struct net_completion completion;
};

/*
 * Take the next event: messages first, in the order of their sender; then
 * completions; then peers that are gone, so that what they left comes before.
 * What is not taken waits. False: there is none.
 */
bool net_take(struct net_core *core, struct net_event *event);
bool net_has_events(const struct net_core *core);

/*
 * One packet that came. Its bytes are header, then payload; the cut may be
 * anywhere, payload_length is 0 for a packet in one piece. The header is written
 * to, and aligned to 8; the payload is read by gather.
 */
struct net_packet {
	void *header, *payload;
	uint32_t header_length, payload_length;
	const struct net_endpoint *from;
	uint32_t waited; /* in the socket, ns */
	uint8_t ecn;     /* the two bits of the IP header */
};

/* Does the memory of packets stay until all messages were taken, which so need not be copied? */
enum net_lent {
	NET_NOT_LENT,
	NET_LENT,        /* it does */
	NET_LENT_PIECES, /* and messages of several packets are taken in pieces: pf_receive_pieces_fn */
};

/* Packets that came, as many as were received together: they are acknowledged together. */
void net_input(struct net_core *core, uint64_t now, struct net_packet *packets, unsigned count,
	       enum net_lent lent);

/*
 * Where the payloads of the next packets likely go: in the local memory of a get,
 * which was found ready, and where nothing was received yet. Never in a put's
 * target: what is written there before the packet was looked at may be another's,
 * and programs poll that memory. So a receive call may scatter:
 * *header bytes to a buffer, the payload to its place, and so on. All but the
 * last place returned have the same length, and they are no more than one receive
 * call with UDP_GRO can fill. Valid until the next call of net_input, to which
 * the packets are given as they lie. Returns how many, 0 but with NET_AUTH_HEADER,
 * while the peer that sent data last is silent, and while other packets come than
 * were foreseen.
 * net_foresees: it is worth asking, and what the time is.
 */
struct net_place {
	void *address;
	uint32_t length;
};
bool net_foresees(const struct net_core *core);
unsigned net_predict(struct net_core *core, uint64_t now, struct net_place *places, unsigned most,
		     uint32_t *header);

/*
 * The system could not write to a place of the last net_predict, or read there what
 * belongs elsewhere; what came with that call is lost. None are foreseen in that
 * transfer any more, so that what comes again is written by place, which knows what
 * is wrong.
 */
void net_misplaced(struct net_core *core);

/* Of each packet its header and its payload, which in two of them may be in three pieces. */
#define NET_VECTORS_MOST (2 * NET_BATCH_MOST + 4)

/* What an acknowledgement took from the window of its path, for when it is not sent. */
struct net_owed {
	uint64_t due;       /* when it was; NET_NEVER: the batch has none */
	uint64_t forgotten; /* lowest of the numbers that it was to be the last to tell of */
	uint32_t unacknowledged;
};

/* Packets to send to one endpoint in one call. */
struct net_batch {
	struct net_endpoint to;
	uint32_t count;
	uint32_t segment; /* bytes of each packet but the last, which may be shorter */
	uint32_t length;  /* bytes of all */
	bool probe;       /* of the path MTU: longer than what is known to pass; may fail */
	uint32_t vectors;
	struct iovec vector[NET_VECTORS_MOST];
	/* The core's own. */
	uint32_t association, path;
	uint64_t number;
	struct net_owed owed; /* by its acknowledgement */
	uint32_t used;
	_Alignas(8) uint8_t slab[8192];
	/* The caller's: NET_BATCH_BYTES + 2048, aligned to 8. With NET_AUTH_HEADER: NULL. */
	uint8_t *room;
};

/*
 * Fill batch with what is to be sent now. Returns the number of packets, 0 for
 * none. A batch refers to memory of transfers and of the core, so it is sent,
 * or given to net_unsent, before any other function than net_output is called.
 */
unsigned net_output(struct net_core *core, uint64_t now, struct net_batch *batch);
/* Does a peer wait for it? False: at most acknowledgements that wait for an answer. */
bool net_owes(const struct net_core *core);
/* Acknowledgements that peers may wait for go with the next output: no answer may follow soon. */
void net_acknowledge(struct net_core *core);
/* No answer follows: all acknowledgements go with the next output, and none is waited for long. */
void net_linger(struct net_core *core);
/*
 * After net_output was empty: is there something to send that may not go yet? Until a window or the
 * peer has room, it is paced, or the peer has answered for the first time.
 */
bool net_blocked(const struct net_core *core);
/*
 * It was not sent: the socket was full, or the system could not read the
 * memory. Its contents are queued anew, sources being asked again.
 */
void net_unsent(struct net_core *core, const struct net_batch *batch, bool unreadable);

/* When net_advance is to be called at the latest; NET_NEVER if it need not be. Maybe too early. */
uint64_t net_deadline(const struct net_core *core);
/* The same, but not too early. */
uint64_t net_exact_deadline(struct net_core *core);
void net_advance(struct net_core *core, uint64_t now);

/* Memory that was absent: status PF_OK, or PF_ERR_FAULT and the address. */
void net_resolved(struct net_core *core, struct net_token token, int status, uint64_t bad);

/* What rejected a packet. */
enum net_refusal {
	NET_REFUSED_PORT,   /* ICMP: nothing listens at the port, or a filter says so */
	NET_REFUSED_FILTER, /* ICMP: prohibited by a filter on the way */
	NET_REFUSED_HERE,   /* a filter of this host */
};
/*
 * Packets to this endpoint are rejected. Believed only if the peer stays silent; of
 * a peer that has answered, only NET_REFUSED_PORT: a filter may be changed back.
 */
void net_refused(struct net_core *core, const struct net_endpoint *endpoint,
		 enum net_refusal refusal);
/* The network says that packets to this endpoint may have at most so many bytes. */
void net_too_big(struct net_core *core, const struct net_endpoint *endpoint, size_t most);

/* Why a packet that came was dropped, as if it had been lost: PF_STAT_NET_MALFORMED and on. */
enum net_drop {
	NET_DROP_MALFORMED,  /* not of a packet's form */
	NET_DROP_UNKNOWN,    /* for no association of this process: of an earlier one, say */
	NET_DROP_UNEXPECTED, /* not in the state that its association is in */
	NET_DROP_DIFFERENT,  /* HELLO or WELCOME of a process with other options */
	NET_DROP_FORGED,     /* wrong tag or digest */
	NET_DROP_REPLAYED,   /* its number was seen before */
	NET_DROP_REFUSED,    /* authentic, and what it carries is not valid, or finds no room */
	NET_DROPS
};
static_assert(NET_DROPS == PF_STAT_NET_REFUSED - PF_STAT_NET_MALFORMED + 1, "each has a statistic");

/* Counters of one core. They only grow, but for packets and bytes that net_unsent takes back. */
struct net_statistics {
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent;                /* whole packets */
	uint64_t acks_sent;                 /* packets that only acknowledge */
	uint64_t drops[NET_DROPS], dropped; /* packets received; dropped: all of them */
	uint64_t lost;                      /* packets declared lost */
	uint64_t spurious;                  /* of these, acknowledged after all */
	uint64_t timeouts;                  /* retransmission time-outs */
	uint64_t tail_probes;               /* for the last packets, before that */
	uint64_t data_sent, data_again;     /* packets of transfers; of these, sent after a loss */
	uint64_t data_duplicate;            /* received, with nothing new in them */
	uint64_t data_in_place;             /* received where they belong */
	uint64_t source_faults, destination_faults; /* blocks parked here */
	uint64_t nacks_sent, nacks_received;        /* blocks */
	uint64_t asked_again; /* packets sent because the receiver asked after a fault */
	uint64_t backup_held, backup_full; /* packets kept in the backup ring, turned away */
	uint64_t wanted;                   /* what peers sent that they wait for an answer to */
	uint64_t ecn_marks;
	uint64_t probes, black_holes; /* of the path MTU */
	uint64_t hellos;
};
const struct net_statistics *net_statistics(const struct net_core *core);
/* The last packet dropped, if there was one: why, and where it came from. */
enum net_drop net_last_drop(const struct net_core *core, struct net_endpoint *from);

/* What congestion control and MTU discovery found, for pf_info and tests. */
struct net_path_info {
	uint64_t rtt, rtt_min, rtt_variation; /* ns; 0: unknown */
	uint64_t window, in_flight;           /* bytes */
	uint32_t packet;                      /* bytes of the longest that passes */
	uint64_t reordering;                  /* ns by which packets were overtaken */
};
bool net_path_info(const struct net_association *association, unsigned path,
		   struct net_path_info *info);
/* Bytes of memory that the association holds now. */
size_t net_association_memory(const struct net_association *association);

#endif
