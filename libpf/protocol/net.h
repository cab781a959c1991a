/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between hosts, without sockets, clock or threads: packets and
 * time go in, packets and a deadline come out. doc/wire.md is the format.
 *
 * A core is the end that a process has of all its associations. Two processes
 * share an association (a word of SCTP): keys, up to NET_PATHS_MOST paths, a
 * stream of messages, transfers and atomics in both directions.
 *
 * Rules for the caller:
 *   - one thread at a time inside a core;
 *   - now is monotonic nanoseconds and never goes back;
 *   - the caller takes events (net_take) between calls of other functions;
 *   - callbacks answer a question of the core, and must not call the core;
 *   - addresses belong to this process or to the peer, and the core never follows an
 *     address: the callbacks source, destination, place, place_many, fetch, gather and
 *     atomic do.
 */
#ifndef PF_NET_H
#define PF_NET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <libpf/pf.h>

#define NET_ID_BYTES 16
#define NET_KEY_BYTES 32
#define NET_INFO_MOST 320     /* bytes of information on a process that opens an association */
#define NET_PATHS_MOST 4      /* paths of an association */
#define NET_PACKET_MOST 65496 /* longest packet: the payload of UDP over IPv4, a multiple of 8 */
#define NET_PACKET_LEAST 1200 /* packet length that every path carries: RFC 8899, 5.1.2 */
#define NET_BATCH_MOST 64     /* packets for one call with UDP_SEGMENT */
#define NET_BATCH_BYTES 65000
#define NET_PIECES_MOST 64 /* pieces written by a call of place_many */
#define NET_NEVER UINT64_MAX

/* The versions of the wire known here. A HELLO and an address name the range of a process. */
#define NET_VERSION_OLDEST 3
#define NET_VERSION_NEWEST 3

struct net_core;
struct net_association;

/* Return the newest version shared with code for the range; 0: none. */
static inline unsigned net_version_shared(unsigned oldest, unsigned newest)
{
	if (oldest > newest || oldest > NET_VERSION_NEWEST || newest < NET_VERSION_OLDEST)
		return 0;
	return newest < NET_VERSION_NEWEST ? newest : NET_VERSION_NEWEST;
}

/* Protection of a packet; both ends must have an equal value. */
enum net_auth {
	NET_AUTH_HEADER,  /* keyed hash over header and control section */
	NET_AUTH_FULL,    /* keyed hash over the payload, too */
	NET_AUTH_ENCRYPT, /* and everything behind the header encrypted */
};

/* Action of the receiver of a block when the page is absent. */
enum net_fault_mode {
	NET_FAULT_NACK,   /* drop the packets, send a NACK, ask for them when the page is there */
	NET_FAULT_BACKUP, /* keep the packets in the backup ring; when the ring is full, as NACK */
};

/* End of a path as the sockets know it: opaque to the core, compared as bytes. */
struct net_endpoint {
	uint8_t bytes[32];
};

struct net_options {
	uint8_t id[NET_ID_BYTES]; /* random name of this process, unique among all processes ever */
	uint8_t key[NET_KEY_BYTES]; /* key that admits to this process; part of its address */
	enum net_auth auth;
	enum net_fault_mode fault_mode;
	uint32_t block_size;      /* unit of faults: a power of two from 4 KiB to 64 KiB */
	uint32_t backup_ring;     /* bytes of packets kept for faulted blocks, over all peers */
	uint32_t receive_buffer;  /* credit of all peers together on one socket: wire_charge */
	uint64_t peer_timeout;    /* ns of silence after which a peer is dead */
	uint64_t contact_timeout; /* ns without any answer after which a peer counts as silent */
	uint64_t refused_timeout; /* contact_timeout if the host says that no socket has the port, ns */
	uint64_t keepalive; /* ns between probes of a silent peer; 0: peer_timeout / 4, 25 s at most */
	uint64_t timeout_min;  /* ns, least retransmission time-out */
	uint64_t ack_delay;    /* longest delay of an acknowledgement, ns */
	uint64_t answer_delay; /* longest delay of one of whole messages, for a reply, ns; < 16 ms */
	uint64_t queue_target; /* ns of queueing delay that congestion control aims at */
	uint64_t idle_release; /* ns after which an idle association frees its buffers */
};

/* Set the defaults; id and key stay zero. */
void net_options_init(struct net_options *options);

enum net_side { NET_SOURCE, NET_DESTINATION, NET_ATOMIC, NET_SIGNAL };

/* Name of a block, atomic or signal that waits; opaque, an argument of net_resolved. */
struct net_token {
	uint32_t association, transfer;
	uint16_t block;
	uint8_t side, served;
	uint32_t generation;
};

/* A block that may have to wait for its pages. */
struct net_wait {
	struct net_token token;
	uint64_t address, length; /* the block in local memory: make these bytes accessible */
	uint64_t end;             /* end of the transfer, as far as known: touch ahead up to here */
	bool write;               /* the block is a destination here; false: a source */
	bool suspect; /* the system could not read the block when a packet was sent (net_unsent) */
	bool foreign; /* the operation and the address are the peer's */
};

struct net_completion {
	int status; /* PF_OK or PF_ERR_*; PF_ERR_REFUSED with a side: the address is not exposed */
	enum pf_side side; /* PF_ERR_FAULT: the side whose memory is bad */
	uint64_t address;  /* PF_ERR_FAULT: the bad address */
	uint64_t value;    /* atomics: the value before the operation */
};

/*
 * Copy the bytes of count vectors to one place, in order. False: some bytes are gone,
 * because the memory that a packet was received into may have been unmapped.
 */
typedef bool (*net_gather_fn)(void *user, const struct iovec *from, unsigned count, void *to);

/* Bytes of the core, and the address in the user's memory where they belong. */
struct net_piece {
	uint64_t address;
	const void *bytes;
	uint32_t length;
	bool foreign; /* as of net_wait */
};

/* Event in the life of a block, for a trace. */
enum net_block {
	NET_BLOCK_SENT,     /* the last packet of the block was sent */
	NET_BLOCK_LOST,     /* packets of the block were lost, and are retransmitted */
	NET_BLOCK_RESOLVED, /* its page fault here was resolved; the data is yet to come */
	NET_BLOCK_ARRIVED,  /* all bytes of the block arrived */
};

/*
 * Operations on the user's memory. source, destination, place, fetch and atomic return
 * PF_OK; PF_ERR_AGAIN if the memory is absent (the user resolves the range of wait and
 * calls net_resolved with the token of wait, later and exactly once); PF_ERR_FAULT with
 * the address in *bad; PF_ERR_REFUSED with an address not exposed to the peer of a foreign operation
 * in *bad; or PF_ERR_MEMORY.
 */
struct net_memory_operations {
	/*
	 * Can [address, address + length) be read (written) without waiting?
	 * PF_ERR_REFUSED of destination: the range can be written, but not by a receive call, or is
	 * not exposed: ask place.
	 */
	int (*source)(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		      uint64_t *bad);
	int (*destination)(void *user, const struct net_wait *wait, uint64_t address,
			   uint32_t length, uint64_t *bad);
	/* Write bytes, without waiting. */
	int (*place)(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		     uint32_t length, uint64_t *bad);
	/*
	 * Write up to NET_PIECES_MOST pieces of blocks that destination found ready.
	 * Returns how many, from the first on, were written; the core gives each of the
	 * rest to place, and the result says why.
	 */
	unsigned (*place_many)(void *user, const struct net_piece *pieces, unsigned count);
	/* Copy bytes from address, without waiting. Not called with NET_AUTH_HEADER. */
	int (*fetch)(void *user, const struct net_wait *wait, uint64_t address, void *to,
		     uint32_t length, uint64_t *bad);
	/* Copy payloads from where net_predict had them received; nothing else reads them there. */
	net_gather_fn gather;
	/* Trace an event; NULL: no trace. The address and length of wait are the block's. */
	void (*trace)(void *user, const struct net_wait *wait, enum net_block what);
	/*
	 * The answer of source about a foreign block may change while the block is sent: ask again
	 * before each packet.
	 */
	bool asks_again;
	int (*atomic)(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		      uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad);
	void *user;
};

/* Questions of the core to its user besides memory. */
struct net_callbacks {
	/*
	 * A process that has our key opens an association. id and info are claims of the
	 * process, unproved. Return false to refuse the association; *peer is then ignored.
	 */
	bool (*accept)(void *user, struct net_association *association,
		       const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
		       void **peer);
	/* Longest packet (UDP payload) of the interface towards that endpoint. */
	size_t (*packet_most)(void *user, const struct net_endpoint *endpoint);
	/* Write random bytes for keys. */
	void (*random)(void *user, void *bytes, size_t length);
	void *user;
};

/* Make a core. NULL: no memory, or an invalid block_size. The core copies all three arguments. */
struct net_core *net_create(const struct net_options *options,
			    const struct net_memory_operations *memory,
			    const struct net_callbacks *callbacks);
/* Free the core. Peers are not told: call net_close_all and send its output first. */
void net_destroy(struct net_core *core);
/* Is anything to be sent, or sent and not acknowledged, over all associations? */
bool net_busy(const struct net_core *core);
/* Bytes of messages that were not acknowledged, over all associations. */
uint64_t net_unacknowledged(const struct net_core *core);

/*
 * Find the association with the process of this id, or make one. key comes from the
 * peer's address; the peer's accept callback gets info, which travels unencrypted.
 * peer: a pointer of the caller, see net_association_user. Sends nothing before first
 * use. NULL: out of memory, info is too long, or the process has an association that has ended or
 * is of another user (net_knows).
 */
struct net_association *net_open(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const uint8_t key[NET_KEY_BYTES], const struct net_endpoint *to,
				 const void *info, size_t length, void *peer);
/* Is there an association with the process of this id? */
bool net_knows(const struct net_core *core, const uint8_t id[NET_ID_BYTES]);
/* Add a path, used together with the first; PF_ERR_ARGUMENT when there are too many. */
int net_path_add(struct net_association *association, const struct net_endpoint *to);
/* Open the association now, without anything to send. PF_OK or the error. */
int net_contact(struct net_association *association);
/* Has the peer answered, and have both ends agreed on keys? */
bool net_is_open(const struct net_association *association);
/* Did the peer never answer, within contact_timeout or until the association was given up? */
bool net_is_silent(const struct net_association *association);
/*
 * End an association that is not open with PF_ERR_UNREACHABLE. Attempts of the peer to
 * open the association get no answer any more, and both ends come to an equal result.
 * why: as of net_association_status; NULL: as net_silence.
 */
void net_give_up(struct net_association *association, const char *why);
/* End an open association with the status and the reason, and tell the peer. */
void net_fail(struct net_association *association, int status, const char *why);
/* Reason why no answer came yet: a noun phrase as of net_association_status. */
const char *net_silence(const struct net_association *association);
/* The endpoint of a path. False: no path has this number; a higher number may have one. */
bool net_path_endpoint(const struct net_association *association, unsigned path,
		       struct net_endpoint *endpoint);
void *net_association_user(const struct net_association *association);
/*
 * Status of an association that is gone. PF_OK: the peer sent GOODBYE.
 * PF_ERR_UNREACHABLE: the peer never answered. PF_ERR_TIMEOUT: the peer answered, and
 * is silent. PF_ERR_PEER: the peer's process ended. PF_ERR_PROTOCOL: the peer broke the
 * protocol. *why: a noun phrase that "from", and the peer's address, can follow; static.
 */
int net_association_status(const struct net_association *association, const char **why);
/*
 * Send GOODBYE: operations and messages that wait complete with PF_ERR_PEER. The pointer
 * is dead after net_output was empty and net_advance was called.
 */
void net_close(struct net_association *association);
void net_close_all(struct net_core *core);

/*
 * Start an operation of pieces of any lengths; the end of all is an event, with arg.
 * The core copies the pieces. No address overflows, and not all pieces are empty. Returns
 * PF_PENDING, PF_ERR_PEER or PF_ERR_MEMORY.
 */
int net_put(struct net_association *association, const pf_piece *pieces, unsigned count, void *arg);
/* Put a piece with a signal. The piece may be empty. */
int net_put_signal(struct net_association *association, const pf_piece *piece,
		   const pf_signal *signal, void *arg);
int net_get(struct net_association *association, const pf_piece *pieces, unsigned count, void *arg);
int net_atomic(struct net_association *association, enum pf_atomic_op op, unsigned width,
	       uint64_t remote, uint64_t operand, uint64_t compare, void *arg);

#define NET_MESSAGE_MOST ((128u << 10) + 256) /* bytes of header and payload together */

/* Send a message; copied. PF_OK, PF_ERR_AGAIN (no room: nothing was taken), PF_ERR_PEER, ... */
int net_send(struct net_association *association, uint32_t tag, const void *header,
	     size_t header_length, const void *payload, size_t payload_length);
/*
 * Send as net_send does, but net_keep copies the payload. The caller calls net_keep next; only
 * net_output and net_unsent may come before. Until net_keep, packets are sent from the
 * caller's memory.
 */
int net_send_lent(struct net_association *association, uint32_t tag, const void *header,
		  size_t header_length, const void *payload, size_t payload_length);
void net_keep(struct net_core *core);
/* Send as net_send does, with the payload written by pack. */
int net_send_pack(struct net_association *association, uint32_t tag, const void *header,
		  size_t header_length, size_t length, pf_pack_fn pack, void *arg);
/* Would net_send take a message of length bytes, or fail otherwise than with PF_ERR_AGAIN? */
bool net_has_room(struct net_association *association, size_t length);

enum net_event_kind {
	NET_MESSAGE,
	NET_NOTICE,     /* a put of the peer is in place: see PF_SIGNAL_NOTICE */
	NET_COMPLETION, /* an operation ended */
	NET_UNANSWERED, /* no answer of the peer within contact_timeout; the core keeps trying */
	NET_GONE,       /* the peer is gone; the association stays until net_close */
};

struct net_event {
	enum net_event_kind kind;
	/* of MESSAGE and NOTICE (the sender), UNANSWERED and GONE */
	struct net_association *association;
	uint32_t tag;  /* tag of a MESSAGE */
	void *data;    /* bytes of a MESSAGE, aligned to 8, until the next net_take or net_input */
	size_t length; /* length of a MESSAGE, or of the put of a NOTICE, bytes */
	unsigned pieces; /* 1: data has the MESSAGE; more: piece has, only with NET_LENT_PIECES */
	struct iovec piece[PF_PIECES_MOST];
	/* Of a NOTICE. The put completes when net_resolved is called with the token and PF_OK. */
	struct net_token token;
	uint64_t remote, value;
	void *arg; /* argument of the operation of a COMPLETION */
	struct net_completion completion;
};

/*
 * Take the next event: messages first, in the order of their sender; then notices and
 * completions; then peers that are gone, after the last messages and completions of
 * each. Events that are not taken wait. False: no event.
 */
bool net_take(struct net_core *core, struct net_event *event);
bool net_has_events(const struct net_core *core);

/*
 * One packet received. Its bytes are header, then payload; the cut may be anywhere,
 * and payload_length is 0 for a packet in one piece. The core writes to header, which
 * is aligned to 8; the core reads payload by gather.
 */
struct net_packet {
	void *header, *payload;
	uint32_t header_length, payload_length;
	const struct net_endpoint *from;
	uint32_t waited; /* time in the socket, ns */
	uint8_t ecn;     /* ECN bits of the IP header */
};

/* Does the memory of packets stay until all messages were taken, without a copy? */
enum net_lent {
	NET_NOT_LENT,
	NET_LENT,        /* the memory stays */
	NET_LENT_PIECES, /* and messages of several packets are taken in pieces: pf_receive_pieces_fn */
};

/* Handle packets that were received together: the core acknowledges them together. */
void net_input(struct net_core *core, uint64_t now, struct net_packet *packets, unsigned count,
	       enum net_lent lent);

/*
 * Predict where the payloads of the next packets belong: in the local memory of a get
 * that was found ready, and where nothing was received yet. Never in the target of a
 * put: the bytes written there before the packet was checked may belong to another
 * packet, and programs poll that memory. A receive call may then scatter: *header
 * bytes to a buffer, the payload to its place, and again for the next packet. All
 * places but the last have an equal length, and one receive call with UDP_GRO can fill
 * them all. The places are valid until the next call of net_input, which takes the
 * packets as scattered. Returns the number of places: 0 without NET_AUTH_HEADER, while
 * the peer that sent data last is silent, and while packets differ from the prediction.
 * net_foresees: may net_predict return places now? The caller reads the clock only then.
 */
struct net_place {
	void *address;
	uint32_t length;
};
bool net_foresees(const struct net_core *core);
unsigned net_predict(struct net_core *core, uint64_t now, struct net_place *places, unsigned most,
		     uint32_t *header);

/*
 * Report that the system could not write to a place of the last net_predict, or could
 * not read misplaced bytes there; the packets of that receive call are lost. The core
 * predicts no more places of the transfer: place then writes the retransmitted data,
 * and the result says why.
 */
void net_misplaced(struct net_core *core);

/* A header and a payload for each packet; two payloads may each be in three pieces. */
#define NET_VECTORS_MOST (2 * NET_BATCH_MOST + 4)

/* State of a window before an acknowledgement, to be restored if the batch is not sent. */
struct net_owed {
	uint64_t due;       /* due time of the acknowledgement; NET_NEVER: the batch has none */
	uint64_t forgotten; /* lowest number acknowledged for the last time */
	uint32_t unacknowledged;
};

/* Packets to send to one endpoint in one call. */
struct net_batch {
	struct net_endpoint to;
	uint32_t count;
	uint32_t segment; /* bytes of each packet but the last, which may be shorter */
	uint32_t length;  /* bytes of all packets */
	bool probe;       /* probe of the path MTU, longer than known to pass; sending may fail */
	uint32_t vectors;
	struct iovec vector[NET_VECTORS_MOST];
	/* Of the core: */
	uint32_t association, path;
	uint64_t number;
	struct net_owed owed; /* the window before the acknowledgement in this batch */
	uint32_t used;
	_Alignas(8) uint8_t slab[8192];
	/* Of the caller: NET_BATCH_BYTES + 2048, aligned to 8. With NET_AUTH_HEADER: NULL. */
	uint8_t *room;
};

/*
 * Fill batch with packets to send now. Returns the number of packets, 0 for none. A
 * batch refers to memory of transfers and of the core: send the batch, or give it to
 * net_unsent, before any call but net_output.
 */
unsigned net_output(struct net_core *core, uint64_t now, struct net_batch *batch);
/* Does a peer wait for our output? False: at most for acknowledgements that wait for a reply. */
bool net_owes(const struct net_core *core);
/* Send acknowledgements that peers may wait for with the next output: no reply may follow soon. */
void net_acknowledge(struct net_core *core);
/*
 * Send all acknowledgements with the next output, and probe soon for those that peers
 * delay: no reply follows.
 */
void net_linger(struct net_core *core);
/*
 * After net_output was empty: does output wait? Output waits until a window or the peer
 * has room, until its time if the path is paced, or for the peer's first answer.
 */
bool net_blocked(const struct net_core *core);
/*
 * Report a batch as not sent: the socket was full, or the system could not read
 * the memory. The core queues the contents anew, and asks source again.
 */
void net_unsent(struct net_core *core, const struct net_batch *batch, bool unreadable);

/* Latest time for net_advance; NET_NEVER: no need. The time may be too early. */
uint64_t net_deadline(const struct net_core *core);
/* Like net_deadline, but never too early. */
uint64_t net_exact_deadline(struct net_core *core);
void net_advance(struct net_core *core, uint64_t now);

/*
 * Report that absent memory was resolved: status PF_OK, or PF_ERR_FAULT and the address; or, with
 * PF_OK, that a NOTICE was handled.
 */
void net_resolved(struct net_core *core, struct net_token token, int status, uint64_t bad);

/* Reporter of the rejection of a packet. */
enum net_refusal {
	NET_REFUSED_PORT,   /* ICMP: nothing listens at the port, or a filter says so */
	NET_REFUSED_FILTER, /* ICMP: prohibited by a filter on the way */
	NET_REFUSED_HERE,   /* a filter of this host */
};
/*
 * Report that packets to this endpoint are rejected. The core believes the report only
 * if the peer stays silent; once a peer has answered, the core believes only
 * NET_REFUSED_PORT, because filters change.
 */
void net_refused(struct net_core *core, const struct net_endpoint *endpoint,
		 enum net_refusal refusal);
/* Report that the network carries packets of at most this many bytes to this endpoint. */
void net_too_big(struct net_core *core, const struct net_endpoint *endpoint, size_t most);

/* Reason for dropping a packet as if it had been lost: PF_STAT_NET_MALFORMED and on. */
enum net_drop {
	NET_DROP_MALFORMED,  /* not the form of a packet */
	NET_DROP_UNKNOWN,    /* no association has the index: for an earlier process, perhaps */
	NET_DROP_UNEXPECTED, /* not valid in the state of the association */
	NET_DROP_DIFFERENT,  /* HELLO or WELCOME of a process with different options */
	NET_DROP_FORGED,     /* wrong tag or digest */
	NET_DROP_REPLAYED,   /* packet number seen before */
	NET_DROP_REFUSED,    /* authentic, but with invalid contents, or no room for them */
	NET_DROPS
};
static_assert(NET_DROPS == PF_STAT_NET_REFUSED - PF_STAT_NET_MALFORMED + 1, "each has a statistic");

/* Counters of a core. Counters only grow, except packets and bytes when net_unsent takes back. */
struct net_statistics {
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent;                /* bytes of whole packets */
	uint64_t acks_sent;                 /* packets that only acknowledge */
	uint64_t drops[NET_DROPS], dropped; /* packets dropped, by reason and in all */
	uint64_t lost;                      /* packets declared lost */
	uint64_t spurious;                  /* packets declared lost, and acknowledged after all */
	uint64_t timeouts;                  /* retransmission time-outs */
	uint64_t tail_probes;               /* probes for the last packets, before a time-out */
	uint64_t data_sent, data_again;     /* packets of transfers, and those sent after a loss */
	uint64_t data_duplicate;            /* packets of transfers received with nothing new */
	uint64_t data_in_place;             /* packets received where the payload belongs */
	uint64_t source_faults, destination_faults; /* blocks parked here */
	uint64_t nacks_sent;                        /* blocks */
	uint64_t asked_again; /* packets sent because the receiver asked after a fault */
	uint64_t backup_kept, backup_full; /* packets kept in the backup ring, and turned away */
	uint64_t wanted; /* packets and entries of peers that wait for an answer */
	uint64_t ecn_marks;
	uint64_t probes, black_holes; /* probes of the path MTU, and black holes found */
	uint64_t hellos;
};
const struct net_statistics *net_statistics(const struct net_core *core);
/* Reason and sender of the last packet dropped, if any. */
enum net_drop net_last_drop(const struct net_core *core, struct net_endpoint *from);

/* Findings of congestion control and MTU discovery, for pf_info and tests. */
struct net_path_info {
	uint64_t rtt, rtt_min;      /* ns; 0: unknown */
	uint64_t window, in_flight; /* bytes */
	uint32_t packet;            /* bytes of the longest packet known to pass */
};
bool net_path_info(const struct net_association *association, unsigned path,
		   struct net_path_info *info);
/* Bytes of memory that the association holds now. */
size_t net_association_memory(const struct net_association *association);

#endif
