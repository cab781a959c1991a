/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpf: page-fault-tolerant transfers between the memories of processes.
 *
 * Any virtual address is a buffer; memory is neither registered nor pinned. A transfer is cut into
 * blocks. A block that meets an absent page is parked; the process that owns the page resolves the
 * page, by making the page accessible; then the block is retransmitted (ExaNeSt, arXiv 2511.21018;
 * PART, IEEE TPDS 33/12, 2022). The words are defined in the source's doc/glossary.md.
 *
 * Conventions, unless a function says otherwise:
 *   - lengths and offsets are in bytes;
 *   - int functions return PF_OK (0), or a negative PF_ERR_*; puts, gets and atomics, which
 *     may go on after the call, also PF_PENDING (1);
 *   - the caller owns all arguments; libpf does not keep a pointer to an argument
 *     after the call. Texts that libpf returns are static;
 *   - one thread at a time may use a context and its peers; any number of
 *     threads at the same time if pf_options.threads is 1, or after pf_allow_threads.
 *     "Thread safe" on a function means: by any threads at the same time, with any
 *     options;
 *   - callbacks run inside pf_progress and pf_wait; pf_callbacks says what they may call;
 *   - libpf does not print, exit or raise a signal.
 */
#ifndef PF_H
#define PF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PF_VERSION_MAJOR 1
#define PF_VERSION_MINOR 0
#define PF_VERSION_STRING "1.0.0-rc1" /* of this header */

/* ---- pf_open(3): open a context with options ---- */

/*
 * Return the version of the running library, PF_VERSION_MAJOR * 65536 + PF_VERSION_MINOR, which may
 * be newer than this header. A program built with an older minor version works with a newer
 * library: functions and fields are only added, and structures grow only where the program gives
 * their size. Thread safe.
 */
unsigned pf_version(void);

typedef struct pf_context pf_context;
typedef struct pf_peer pf_peer;

enum pf_status {
	PF_OK = 0,               /* success; an operation is complete, no callback follows */
	PF_PENDING = 1,          /* an operation is not complete: a callback follows */
	PF_ERR_AGAIN = -1,       /* no room now: call pf_progress, then repeat the call */
	PF_ERR_FAULT = -2,       /* an address cannot be resolved: see pf_completion */
	PF_ERR_PEER = -3,        /* the peer's process ended or closed its context */
	PF_ERR_UNREACHABLE = -4, /* no transport reaches this address, or no answer ever came */
	PF_ERR_ARGUMENT = -5,    /* an argument is out of range */
	PF_ERR_MEMORY = -6,      /* out of memory */
	PF_ERR_TOO_LONG = -7,    /* longer than pf_attributes.send_max, or than a buffer */
	PF_ERR_REFUSED = -8,     /* wrong key or other version */
	PF_ERR_SYSTEM = -9,      /* a system call failed: errno says why */
	PF_ERR_TIMEOUT = -10,    /* nothing came from the peer for pf_options.peer_timeout, or the
				  * time given to pf_flush has passed */
	PF_ERR_PROTOCOL = -11,   /* the peer broke the protocol */
};

/* ---- pf_strerror(3): text for a status of libpf ---- */

/* Return a short English text for any status; static, never NULL. Thread safe. */
const char *pf_strerror(int status);

/* How much of a buffer is resolved with one fault. */
enum pf_policy {
	PF_POLICY_TOUCH, /* the block that met the fault */
	PF_POLICY_AHEAD, /* and a window behind the block, which doubles while faults are in order */
	PF_POLICY_HUGE,  /* huge pages where a transfer covers whole ones, otherwise touch */
	PF_POLICY_ADAPTIVE, /* both huge and ahead */
};

/* Which peers are reached over the network. */
enum pf_network {
	PF_NETWORK_OFF,    /* none */
	PF_NETWORK_REMOTE, /* peers that shared memory does not reach */
	PF_NETWORK_ALWAYS, /* all but this process, for comparison and tests */
};

/* Protection of a packet between hosts; equal in all processes of a job. */
enum pf_auth {
	PF_AUTH_HEADER,  /* keyed hash over everything but the payload */
	PF_AUTH_FULL,    /* keyed hash over the payload too */
	PF_AUTH_ENCRYPT, /* the payload is also encrypted */
};

/* How the receiver of a block handles an absent page of the block. */
enum pf_net_fault {
	PF_NET_FAULT_NACK,   /* drop the block; ask again when the page is present (ExaNeSt) */
	PF_NET_FAULT_BACKUP, /* keep the block until the page is present (ASPLOS'17) */
};

/*
 * How blocks move between processes of one host. Between hosts: by /dev/exanest, unless the value
 * is HOST, where an engine has a link; else by packets.
 */
enum pf_transport {
	PF_TRANSPORT_AUTO,   /* /dev/exanest where the peer is in reach, else as HOST */
	PF_TRANSPORT_HOST,   /* process_vm_readv, process_vm_writev, or the ring */
	PF_TRANSPORT_DEVICE, /* /dev/exanest, or none: PF_ERR_UNREACHABLE */
};

/*
 * Processes of the user with permission to copy to and from the memory of this process where
 * kernel.yama.ptrace_scope is 1. Single copy needs the peers among the permitted processes.
 */
enum pf_ptracer {
	PF_PTRACER_NONE,     /* only ancestors, or as the program says by prctl(PR_SET_PTRACER) */
	PF_PTRACER_LAUNCHER, /* processes below the process that started this process group */
	PF_PTRACER_ANY,      /* all of the user */
};

/*
 * Options. The tables of pf_option_table and pf_text_table have the meaning, the range and the
 * environment variable of each field; libpf(7) is generated from the tables. Later versions add
 * fields at the end.
 */
#define PF_DATA_MOST 64

typedef struct pf_options {
	size_t size;          /* of the structure, set by pf_options_init and pf_options_default */
	uint64_t ring_size;   /* bytes */
	uint64_t ring_memory; /* bytes */
	uint64_t eager_limit; /* bytes */
	uint64_t share_min;   /* bytes */
	uint64_t run_max;     /* bytes */
	uint64_t block_size;  /* bytes */
	uint64_t operations_max;  /* puts, gets and atomics; 0: no limit */
	uint64_t single_copy;     /* 0 or 1 */
	uint64_t transport;       /* enum pf_transport */
	uint64_t policy;          /* enum pf_policy */
	uint64_t residency;       /* microseconds; 0: never trusted */
	uint64_t fault_retries;   /* times */
	uint64_t resolve_share;   /* percent of one processor */
	uint64_t collapse;        /* bytes; 0: never */
	uint64_t wake;            /* 0 or 1 */
	uint64_t threads;         /* 0 or 1 */
	uint64_t calibrate;       /* 0 or 1 */
	uint64_t network;         /* enum pf_network */
	uint64_t auth;            /* enum pf_auth */
	uint64_t net_fault;       /* enum pf_net_fault */
	uint64_t backup_ring;     /* bytes */
	uint64_t socket_buffer;   /* bytes */
	uint64_t peer_timeout;    /* seconds */
	uint64_t contact_timeout; /* seconds */
	uint64_t port_min;        /* UDP port; 0: the system chooses */
	uint64_t port_max;        /* UDP port; not less than port_min */
	/* Texts; NULL: not set. */
	const char *if_include; /* "eth0,10.0.0.0/8" */
	const char *if_exclude; /* like if_include */
	uint64_t ptracer;       /* enum pf_ptracer */
	const void *data;       /* of the program, for its peers: pf_peer_data */
	uint64_t data_length;   /* bytes, up to PF_DATA_MOST */
	uint64_t expose;        /* 0 or 1 */
} pf_options;

/* An option that is a number. The entries do not grow in later versions. */
typedef struct pf_option_info {
	const char *name; /* "eager_limit"; the environment variable is LIBPF_EAGER_LIMIT */
	const char *help; /* one sentence */
	size_t offset;    /* of the uint64_t in pf_options; skip offsets beyond pf_options.size */
	uint64_t minimum, maximum;
	int level;                /* intended reader: MPI_T verbosity level, 1 (users) to 9 */
	const char *const *names; /* of the values from minimum on, ended by NULL; or NULL */
} pf_option_info;

/* ---- pf_open(3) ---- */

/* Return the options that are numbers; static, ended by an entry without a name. Thread safe. */
const pf_option_info *pf_option_table(void);

/* An option that is a text. The entries do not grow in later versions. */
typedef struct pf_text_info {
	const char *name; /* "if_include"; the environment variable is LIBPF_IF_INCLUDE */
	const char *help; /* one sentence */
	size_t offset;    /* of the const char * in pf_options; as in pf_option_info */
	int level;        /* as in pf_option_info */
} pf_text_info;

/* Return the options that are texts; static, ended by an entry without a name. Thread safe. */
const pf_text_info *pf_text_table(void);

/*
 * Fill *options with the built-in defaults, then the machine's calibration file, then the LIBPF_*
 * environment variables, whose numbers may end in K, M or G (powers of 1024). A variable that
 * cannot be parsed or is out of range is skipped: the call goes on with the next variables and
 * returns PF_ERR_ARGUMENT, and *culprit, unless culprit is NULL, is the first invalid option. The
 * texts point into the environment. size is sizeof(*options), by which programs of older and newer
 * versions work: options unknown to the program have the value of this call in pf_open. With a size
 * less than sizeof(size_t), PF_ERR_ARGUMENT and *options is unchanged. Thread safe while no thread
 * changes the environment.
 */
int pf_options_init(pf_options *options, size_t size, const pf_option_info **culprit);

/*
 * Fill *options as pf_options_init does, but ignore the environment, for a program that takes its
 * settings from elsewhere, such as an MPI library. Of the LIBPF_* variables only LIBPF_CALIBRATE is
 * read, where 0 means: without the calibration file. Options unknown to the program are those of
 * pf_options_init nevertheless. Returns PF_OK, or PF_ERR_ARGUMENT with a size less than
 * sizeof(size_t). Thread safe as pf_options_init is.
 */
int pf_options_default(pf_options *options, size_t size);

/*
 * Describe why pf_open(options, ...) returns PF_ERR_ARGUMENT: name, value and permitted values of
 * the first invalid option; of the first invalid LIBPF_* variable if options is NULL; a wrong size, or
 * set options of a newer version. Stores at most size bytes and returns the length as snprintf
 * does; 0 if all are valid. Thread safe while no thread changes the environment.
 */
int pf_options_error(const pf_options *options, char *buffer, size_t size);

/*
 * State of a peer, as seen by this process. The states only grow. PF_PEER_LEFT and later states are
 * final: the reason why the peer has ended. Later versions may add reasons at the end.
 */
enum pf_peer_state {
	PF_PEER_UNUSED,     /* not used by this process yet; the peer may have sent messages */
	PF_PEER_CONNECTING, /* messages are accepted, and sent once the connection is made */
	PF_PEER_CONNECTED,  /* between hosts: in use; the peer may not have answered yet */
	/* The end, and the status of operations. */
	PF_PEER_LEFT, /* closed the context: PF_ERR_PEER */
	PF_PEER_DIED, /* process ended without closing the context, or closed the context before the
		       * first contact, or gave this process up: PF_ERR_PEER */
	PF_PEER_UNREACHABLE, /* never answered, or packets are rejected: PF_ERR_UNREACHABLE */
	PF_PEER_SILENT,      /* nothing came for pf_options.peer_timeout: PF_ERR_TIMEOUT */
	PF_PEER_REFUSED,     /* wrong key or other version: PF_ERR_REFUSED */
	PF_PEER_FAILED, /* broke the protocol (PF_ERR_PROTOCOL), or the connection found no memory
			 * (PF_ERR_MEMORY) or failed in a system call (PF_ERR_SYSTEM) */
};

/* ---- pf_callbacks(3): callbacks of a context ---- */

/*
 * The callbacks of a context run inside pf_progress, or inside pf_wait and pf_flush, which make
 * progress likewise, on the calling thread, and so do completion callbacks (pf_complete_fn). A callback may call every
 * function of libpf, with these exceptions for the callback's own context:
 *   - not pf_close;
 *   - pf_progress and pf_wait do nothing and return 0;
 *   - pf_flush does nothing and returns PF_ERR_ARGUMENT;
 *   - pf_arm returns PF_ERR_AGAIN;
 *   - pf_peer_contact does not wait: PF_ERR_AGAIN if the outcome is not known yet.
 * The functions of a pager and of pf_send_pack (pf_supply_fn, pf_pack_fn) are no callbacks in this
 * sense: they must not call libpf.
 */

/*
 * Called for each message that arrives with a tag of the owner (pf_owner_add). from is the pointer
 * that pf_peer_open returns for the sender's address, whether or not the address was opened. data is
 * valid during the call and aligned to 8 bytes. The sender can still change data: copy values before
 * a check and use, unless the peer is trusted.
 */
typedef void (*pf_receive_fn)(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			      size_t length, void *arg);

#define PF_PIECES_MOST 16  /* of a message */
#define PF_PIECE_FIRST 128 /* bytes, at least, of the first of several */

/*
 * Called, instead of pf_callbacks.receive, for a message that arrives in pieces, as long messages
 * do: count pieces from 2 to PF_PIECES_MOST. The first piece has at least PF_PIECE_FIRST bytes and
 * is aligned to 8 bytes, and all but the last have a multiple of 8. Messages in one piece, and
 * without this function all messages, go to pf_callbacks.receive.
 */
typedef void (*pf_receive_pieces_fn)(pf_context *context, pf_peer *from, uint32_t tag,
				     const struct iovec *pieces, unsigned count, void *arg);

/*
 * Called exactly once for each peer whose end libpf learns of; by pf_progress, after all messages
 * that arrived from the peer were given to receive, or dropped (pf_owner_add), and after all unfinished operations with the
 * peer have completed with an equal status. From then on each call for the peer returns status.
 * reason is PF_PEER_LEFT or a later state. text is pf_peer_path's and says how the peer ended.
 * libpf learns of the end of a peer that is connected, in either direction, or is being connected.
 * The pointer of a peer that is not open is not valid after the call; pf_peer_open in the call, with
 * the peer's address, keeps it.
 * Not called by pf_close, nor for a peer that was never used.
 */
typedef void (*pf_peer_event_fn)(pf_context *context, pf_peer *peer, enum pf_peer_state reason,
				 int status, const char *text, void *arg);

enum pf_log_level {
	PF_LOG_WARNING, /* a likely fault outside of libpf, for a person to mend */
	PF_LOG_INFO,    /* findings and decisions of libpf, with reasons, for debugging */
};

/*
 * Called for each line of the log of the context with a level up to pf_callbacks.log_level. peer is
 * NULL if the line is about the whole context. text is one line, without a newline, valid during the
 * call; the wording may change in any version. Later versions may add levels at the end.
 *
 * PF_LOG_WARNING: once for each host with a peer that has not answered the first contact within
 * pf_options.contact_timeout, as behind a firewall. libpf still tries the peer, which may be slow,
 * or stopped by a debugger. text says by which address, port and interface. With peer NULL: packets
 * that arrived were dropped, how many and why; at most once in 10 s, and not if a network that
 * repeats or delays packets is enough to explain the drops.
 *
 * PF_LOG_INFO: in the first pf_progress, the findings of pf_open: the calibration file, the network
 * interfaces, the engine, or the reason for a lack. For each peer, from the first use on, each text of
 * pf_peer_path: the path, the reason for a slower path, and at last, before pf_callbacks.peer_event,
 * the end; between hosts also the addresses and interfaces. Transfers and messages add no line.
 *
 * Up to 256 lines wait for a call of pf_progress. A last line has the number of lines lost.
 */
typedef void (*pf_log_fn)(pf_context *context, pf_peer *peer, enum pf_log_level level,
			  const char *text, void *arg);

/*
 * Called once after calls for peer returned PF_ERR_AGAIN, by a later pf_progress, when the first of
 * the refused calls would find room, or the error of a peer that has failed. Sends are told of
 * separately, and so are, together, puts, gets and atomics, which pf_options.operations_max
 * refuses. Peers are told of in the order of the refusals, as far as there is room. A call that is
 * refused again, also from inside room, is told of again.
 *
 * With pf_options.threads another thread may call room before the refused call has returned: hold a
 * lock of the program around the call and the record of the work to repeat, and take the lock in
 * room.
 */
typedef void (*pf_room_fn)(pf_context *context, pf_peer *peer, void *arg);

/*
 * Called for each pf_put_signal of a peer with PF_SIGNAL_NOTICE, once the length bytes at remote, an
 * address of this process, are in place. remote, length and value are as the peer gave them: check
 * remote and length before a use, unless the peer is trusted. from is as of pf_receive_fn.
 */
typedef void (*pf_notice_fn)(pf_context *context, pf_peer *from, uint64_t remote, size_t length,
			     uint64_t value, void *arg);

/* NULL for a function: not called. Later versions add fields at the end. */
typedef struct pf_callbacks {
	size_t size;                         /* sizeof(pf_callbacks) */
	pf_receive_fn receive;               /* NULL: messages wait: pf_owner_add */
	pf_receive_pieces_fn receive_pieces; /* NULL: all messages go to receive */
	pf_peer_event_fn peer_event;
	pf_log_fn log;
	enum pf_log_level log_level; /* the last level to be told; 0: PF_LOG_WARNING */
	pf_room_fn room;             /* NULL: repeat a refused call after pf_progress */
	void *arg;                   /* last argument of each */
	pf_notice_fn notice;
} pf_callbacks;

/* ---- pf_open(3) ---- */

/*
 * Open a context, which stands for this process; one per process is the rule. *options is copied;
 * NULL means the options of pf_options_init. *callbacks is copied; NULL means none. A context costs a service thread (asleep unless a peer
 * connects, ends or asks for a page), sockets and two pages of shared memory, one of which holds
 * the statistics for pf_info --job. Returns PF_ERR_ARGUMENT for an option out of range or, if
 * options is NULL, an invalid LIBPF_* variable, or for callbacks with a wrong size or that set a
 * field of a newer version; PF_ERR_MEMORY; PF_ERR_SYSTEM. Thread safe as pf_options_init is. A
 * context does not survive fork: the child must not use the context.
 */
int pf_open(const pf_options *options, const pf_callbacks *callbacks, pf_context **context);

/* ---- pf_owner_add(3): share a context between libraries ---- */

/*
 * Owners let several libraries of one process share a context, with the service thread, the rings
 * and the sockets. An owner has the tags from first to last of messages to this process, and
 * callbacks of its own; the callbacks of pf_open have all other tags. *callbacks is copied. An owner
 * has receive, for messages with the owner's tags; receive_pieces, only if pf_open had
 * receive_pieces; peer_event, for each peer; room, for each peer after a refused call of any owner;
 * and arg. For an owner without receive_pieces, libpf joins the pieces of a message.
 *
 * A message with a tag without a receive function waits, as a copy, until an owner comes, and is
 * then given before newer messages of the peer. At the end of the peer, waiting messages are
 * dropped. Up to PF_UNOWNED_MOST bytes of each peer wait, 24 more for each message; a peer with more
 * fails, also for lack of memory (PF_PEER_FAILED, PF_ERR_MEMORY).
 *
 * Returns PF_ERR_ARGUMENT for a range that is empty or has a tag of another owner, and for callbacks
 * that are NULL, have no receive, or are wrong as for pf_open; PF_ERR_MEMORY, also beyond PF_OWNERS_MOST owners. At any time after pf_open, also
 * in callbacks. While another thread is in pf_progress or pf_wait, the call waits, and ends a sleep
 * there: hold no lock that a callback takes. An owner added in peer_event or room may be told of the
 * same event.
 */
#define PF_OWNERS_MOST 8          /* of a context */
#define PF_UNOWNED_MOST (1 << 20) /* bytes */
typedef struct pf_owner pf_owner;
int pf_owner_add(pf_context *context, uint32_t first, uint32_t last, const pf_callbacks *callbacks,
		 pf_owner **owner);
/*
 * Remove an owner; pf_close removes the rest. After the return no callback of the owner runs, except
 * the caller, if pf_owner_remove is called in one. At any time, as pf_owner_add.
 */
void pf_owner_remove(pf_owner *owner);
/*
 * The pointer of an owner for a peer, beside pf_peer_user: NULL until set, and kept until the owner is
 * removed or the peer freed. pf_owner_set_user returns
 * PF_OK or PF_ERR_MEMORY. Thread safe while neither the owner is removed nor the peer is freed.
 */
void *pf_owner_user(const pf_owner *owner, const pf_peer *peer);
int pf_owner_set_user(const pf_owner *owner, pf_peer *peer, void *user);

/* ---- pf_open(3) ---- */

/*
 * Close a context and free all peers of the context. Unfinished transfers end without a callback,
 * once no peer of this host moves a part of a transfer; for a peer that is stopped meanwhile
 * pf_close waits 10 s at most. Messages that pf_send accepted still reach a peer of this host;
 * messages to another host reach the peer if the peer's process acknowledges before two seconds
 * pass in which no peer acknowledges any message (see pf_send(3)). No other thread may use the
 * context. NULL is allowed.
 */
void pf_close(pf_context *context);

/*
 * From now on any number of threads may use the context, as if pf_options.threads had been 1. Until
 * the return no other thread may be in a function of the context; the calling thread may, in a
 * callback.
 */
void pf_allow_threads(pf_context *context);

/* ---- pf_join(3): join the protection domain of a job ---- */

/*
 * Join the protection domain of a job. secret is length bytes that all processes of the job know,
 * and no process outside. Call pf_join before the address is given to other processes. Only
 * processes of one domain reach each other over /dev/exanest; processes of different domains use
 * the host transport. Without pf_join a context joins the domain of the first peer, which is enough
 * for two processes. Only the first call counts. Thread safe.
 */
void pf_join(pf_context *context, const void *secret, size_t length);

typedef struct pf_attributes {
	size_t send_max;       /* longest header plus payload for pf_send */
	size_t eager_limit;    /* pf_options.eager_limit in force, at most send_max */
	size_t address_length; /* of pf_address */
	uint32_t node;         /* number of this host on the link of the engine; 0: no link */
} pf_attributes;

/* ---- pf_open(3) ---- */

/*
 * Fill *attributes. size is sizeof(*attributes): later versions may add fields at the end, and
 * fields unknown to the running version become 0. Thread safe.
 */
void pf_query(const pf_context *context, pf_attributes *attributes, size_t size);

/* ---- pf_address(3): addresses and peers ---- */

/*
 * Store the context's address in buffer, which has room for *length bytes, and the length in
 * *length. If the room is too small, PF_ERR_TOO_LONG: *length is the length nevertheless, and
 * buffer, possibly NULL, is unchanged. PF_ADDRESS_MAX bytes are enough for every 1.x. An address
 * is opaque bytes, to be handed to other processes out of band (a modex, a file, a pipe). The
 * address contains the key to this process's memory: treat the address as a secret of the job.
 * Thread safe.
 */
#define PF_ADDRESS_MAX 1024
int pf_address(const pf_context *context, void *buffer, size_t *length);

/*
 * Return PF_OK if a transport reaches the owner of this address,
 * PF_ERR_UNREACHABLE if none does, also because its version of libpf shares no
 * form of messages with this one, PF_ERR_ARGUMENT if the bytes are not an address.
 * Unless why is NULL, *why is a text with the reason, valid until pf_close.
 * Sends nothing: the process may have ended. Thread safe.
 */
int pf_reachable(const pf_context *context, const void *address, size_t length, const char **why);

/*
 * Make a peer from an address; the context's own is allowed. Nothing is sent before first use. user
 * is the result of pf_peer_user. Opening an address again returns the first peer and counts, and
 * a user that is not NULL replaces the earlier. A peer
 * is valid until the last pf_peer_close and the last callback of an operation; a peer that is not
 * open, until pf_callbacks.peer_event returns; at the latest until pf_close.
 * Errors as pf_reachable's, and PF_ERR_MEMORY.
 */
int pf_peer_open(pf_context *context, const void *address, size_t length, void *user,
		 pf_peer **peer);
/*
 * Drop one count; with the last, pf_peer_user becomes NULL. Transfers in flight go on, and messages
 * of the peer's process still arrive, as long as the process lives, with an equal pointer.
 */
void pf_peer_close(pf_peer *peer);
/* Return the user pointer; NULL for a peer that is not open. Thread safe. */
void *pf_peer_user(const pf_peer *peer);
/*
 * Return the pf_options.data of the peer's process, and store the length; NULL and 0 if there is
 * none. The data is part of the address of the process, hence known as soon as the peer is: of a
 * sender before its first message. Valid while the peer is. Not encrypted between hosts, and a
 * claim of the process: check the data before a use, unless the peer is trusted. Thread safe.
 */
const void *pf_peer_data(const pf_peer *peer, size_t *length);
/*
 * Return how bytes reach the peer and why, e.g. "through the ring: single_copy is 0"; of a peer
 * that has failed, the reason. Valid while the peer is. The text changes when the first use finds out.
 * A text that begins with PF_PATH_RING says that transfers go through the ring: then a message is
 * the faster way to move the same bytes. Thread safe.
 */
#define PF_PATH_RING "through the ring"
const char *pf_peer_path(const pf_peer *peer);
/*
 * Return the state of the peer. The end of a peer shows when pf_progress has noticed it, before the
 * call of pf_callbacks.peer_event. Thread safe.
 */
enum pf_peer_state pf_peer_state(const pf_peer *peer);

/*
 * Find out whether the peer answers, and send nothing else. Returns PF_OK if the peer does, or is
 * on this host: then pf_peer_contact begins to connect, for which the first message would wait.
 * PF_ERR_UNREACHABLE if the peer rejects packets, or has not answered within
 * pf_options.contact_timeout: then the peer has ended (PF_PEER_UNREACHABLE), and later
 * peers of the peer's host without an answer yet end likewise; PF_ERR_AGAIN if
 * the outcome is not known yet; PF_ERR_MEMORY. wait 0: only begin. wait 1: wait for the answer;
 * PF_ERR_AGAIN only from a callback, or while another thread is inside a callback for long. Calls
 * no callback. Unless why is NULL, *why is a text with the reason, valid while the peer is.
 */
int pf_peer_contact(pf_peer *peer, int wait, const char **why);

/* The side whose memory an address is in. */
enum pf_side { PF_SIDE_NONE, PF_SIDE_LOCAL, PF_SIDE_REMOTE };

/* Why an address failed. Later versions may add reasons at the end. */
enum pf_reason {
	PF_REASON_NONE,
	PF_REASON_UNRESOLVED,  /* not mapped, access not permitted, or never brought in */
	PF_REASON_NOT_EXPOSED, /* the peer has not exposed the address with the right: pf_expose */
};

/* Made by libpf alone: later versions may add fields at the end. */
typedef struct pf_completion {
	int status;            /* PF_OK or PF_ERR_* */
	enum pf_side side;     /* with PF_ERR_FAULT: whose memory; otherwise PF_SIDE_NONE */
	uint64_t address;      /* with PF_ERR_FAULT: where resolving failed */
	uint64_t value;        /* of pf_atomic: the integer before the operation */
	void *arg;             /* as given to the operation */
	enum pf_reason reason; /* with PF_ERR_FAULT: why; otherwise PF_REASON_NONE */
} pf_completion;

/* ---- pf_put(3): move bytes to or from a peer's memory ---- */

/* Called once for an operation that returned PF_PENDING. *completion is valid during the call. */
typedef void (*pf_complete_fn)(pf_context *context, const pf_completion *completion);

/*
 * A flag of pf_put, pf_putv and pf_put_signal: no program reads the destination before completion,
 * or before the signal of the put. Until then the bytes of the destination are undefined, so that
 * libpf may let bytes arrive there unchecked. The caller decides which puts may have the flag; no
 * present transport makes use of it.
 */
#define PF_PUT_UNREAD 1u

/*
 * Copy length bytes from local to the address remote in the peer (put), or from remote to local
 * (get). Both buffers belong to the transfer until completion; a put is complete when the bytes are
 * in the peer's memory. Until then each byte of a put's destination is the old byte or the put's,
 * in any order (flags 0; PF_PUT_UNREAD: undefined); the contents of a get's destination are undefined. Returns
 *   PF_OK      the transfer is complete; complete is not called;
 *   PF_PENDING complete will be called; if complete is NULL, pf_flush returns the error of
 *              the transfer, if any;
 *   PF_ERR_*   nothing is on the way; complete is not called. PF_ERR_AGAIN only with
 *              pf_options.operations_max: so many operations are unfinished (see
 *              pf_room_fn).
 * An error may come on return or as the completion's status, whichever is first: handle both alike
 * (pf_put(3) has the pattern). After an error other than PF_ERR_AGAIN the contents of the
 * destination are undefined; memory outside of the destination was not changed.
 */
int pf_put(pf_peer *peer, const void *local, uint64_t remote, size_t length, unsigned flags,
	   pf_complete_fn complete, void *arg);
int pf_get(pf_peer *peer, void *local, uint64_t remote, size_t length, pf_complete_fn complete,
	   void *arg);

/* A range of this process and a range of the peer, equally long. length may be 0. */
typedef struct pf_piece {
	void *local; /* a put only reads */
	uint64_t remote;
	size_t length;
} pf_piece;

#define PF_VECTOR_MOST 1024 /* pieces of a pf_putv or pf_getv */

/* ---- pf_putv(3): move many pieces by one operation ---- */

/*
 * Copy count pieces, at most PF_VECTOR_MOST, by a single operation: with a completion when all
 * pieces are in place, and a place in pf_options.operations_max. The pieces move in any order, in
 * parallel, and a piece with a page fault does not delay the rest, within limits: on one host 32
 * page faults of an operation are resolved at a time, and further pieces wait; between hosts 256
 * pieces of all puts (of all gets) to a peer are under way, counted from the oldest. The ranges
 * belong to the operation until completion; the array pieces is the caller's again on return: an
 * operation not complete by then keeps a copy, 24 bytes a piece, and no more memory for a greater
 * count.
 *
 * For many short pieces, such as a column of a matrix: by single copy, pieces without a page fault,
 * up to pf_options.run_max bytes in all, take one system call. A long piece, from
 * pf_options.share_min on, moves sooner by pf_put, where both processes copy. Over the network of
 * /dev/exanest packets move vectors, and the engine moves single puts and gets.
 *
 * Returns and errors as of pf_put; PF_OK also if all pieces are empty; PF_ERR_ARGUMENT for a count
 * above PF_VECTOR_MOST too. With PF_ERR_FAULT, pf_completion.address is in the first piece with a
 * bad address, in the order of the array; the destinations of all pieces are undefined. Pieces of a
 * put may overlap in the source. Where destinations overlap, each byte is of any of the pieces.
 */
int pf_putv(pf_peer *peer, const pf_piece *pieces, unsigned count, unsigned flags,
	    pf_complete_fn complete, void *arg);
int pf_getv(pf_peer *peer, const pf_piece *pieces, unsigned count, pf_complete_fn complete,
	    void *arg);

/* ---- pf_put_signal(3): put data, then a signal ---- */

enum pf_signal_op {
	PF_SIGNAL_ADD,    /* add value to the word */
	PF_SIGNAL_SET,    /* store value in the word */
	PF_SIGNAL_NOTICE, /* call the peer's pf_callbacks.notice with value */
};

typedef struct pf_signal {
	enum pf_signal_op op;
	uint64_t remote; /* aligned word of 8 bytes in the peer; NOTICE: not used */
	uint64_t value;
} pf_signal;

/*
 * Put as pf_put does, and signal once the data is in place, by a single operation: with one
 * completion, when both are done, and no round trip between the two. The signal happens exactly
 * once, and only if all of the data is in place. length may be 0: a signal alone.
 *
 * A target that only loads the word sees the value before or the value after, never parts of
 * both. After an acquire load that has the value after, the target sees all of the data, and the
 * data of each put to the target that had completed here before the call. The change of the word is
 * atomic towards all processors of the peer's host, as of pf_atomic. Signals are in no order with
 * other signals, unless the later was posted after the completion of the earlier: a count in a
 * word says how many puts arrived, not which. Nor are signals in order with messages.
 *
 * The peer executes the signal in pf_progress; between hosts ADD and SET also on the service thread,
 * but not in memory of a pager. With NOTICE the operation completes when the callback has
 * returned, or at once if the peer has none.
 *
 * Returns and errors as of pf_put, but never PF_OK; PF_ERR_ARGUMENT also for an unknown op, and for
 * a word that is not aligned. If the word cannot be resolved, PF_ERR_FAULT with the address of the
 * word: then the data was put. After another error the signal has not happened, unless the peer has
 * ended: then the signal may have happened.
 */
int pf_put_signal(pf_peer *peer, const void *local, uint64_t remote, size_t length,
		  const pf_signal *signal, unsigned flags, pf_complete_fn complete, void *arg);

/* ---- pf_expose(3): limit peers to ranges of memory ---- */

/* Rights of an exposed range. */
#define PF_EXPOSE_READ 1u  /* peers may get */
#define PF_EXPOSE_WRITE 2u /* peers may put */

/*
 * With pf_options.expose, peers reach exposed ranges alone, of any addresses and lengths. pf_expose
 * gives the length bytes at base the rights, PF_EXPOSE_READ, PF_EXPOSE_WRITE or both, in place of
 * earlier rights of the bytes, as mprotect(2) does. An atomic and the word of a signal need both
 * rights; PF_SIGNAL_NOTICE accesses no memory, and needs none. An operation may cross ranges without
 * a gap. The memory need not be mapped, and is not touched.
 *
 * pf_unexpose takes all rights from the bytes, which may be parts of ranges, several ranges, or not
 * exposed.
 *
 * The owner checks: each block of a transfer, each atomic and each signal, when it is about to be
 * executed. A refused operation ends with PF_ERR_FAULT, PF_SIDE_REMOTE, PF_REASON_NOT_EXPOSED and
 * the first address without the right, whether or not the address is mapped. PF_STAT_NOT_EXPOSED of
 * the owner counts refusals. A transfer that crosses the end of the exposed memory may move the
 * bytes inside.
 *
 * After pf_unexpose has returned no access is permitted. An access that another thread was permitted
 * before may still happen: of blocks being copied in pf_progress, or, between hosts, of packets that
 * the service thread has in hand. An operation under way ends with PF_ERR_FAULT at the next block.
 * Every context of the process needs the option: one without it gives peers all memory.
 *
 * Both return PF_ERR_ARGUMENT without pf_options.expose, for a range that wraps around, and for
 * unknown rights or none; PF_ERR_MEMORY: nothing has changed. A length of 0 is allowed. Each call
 * takes time in proportion to the number of ranges. Thread safe.
 */
int pf_expose(pf_context *context, const void *base, size_t length, unsigned rights);
int pf_unexpose(pf_context *context, const void *base, size_t length);

/* ---- pf_pager_register(3): memory with pages from the application ---- */

/*
 * A user-space pager: supply fills the pages of [address, address + length) whenever pages are
 * absent, also after pf_pager_evict or MADV_DONTNEED, which are allowed at any time. The range is
 * page aligned, private, anonymous memory, not shared and not of a file or memfd; present pages
 * stay.
 *
 * supply writes length bytes to page, the contents of address, and returns PF_OK; the length is one
 * page unless pf_pager_set_unit says otherwise. A supply without the contents returns any PF_ERR_*,
 * and a transfer ends with PF_ERR_FAULT. supply is called on a resolver thread until known to be
 * quick, and after a slow call; else on the thread that handles the fault: the caller of
 * pf_progress, or the service thread, which also handles the faults of loads and stores of this
 * process. supply may run on several threads at the same time. supply must not call libpf, nor
 * touch the memory of any pager of the context: on the service thread supply would wait for the
 * service thread.
 *
 * System calls do not wait for absent pages of the range but fail with EFAULT: touch evicted pages
 * first. Unregister before the range is unmapped, moved or resized, and before pf_close; present
 * pages keep their contents. Pages that mremap moves lose the pager, and pages that mremap adds
 * have none: absent pages read as zeros. After fork the range is ordinary memory in the child, and
 * unchanged in the parent.
 *
 * Returns PF_ERR_ARGUMENT for a range that is not private, anonymous memory or overlaps the range
 * of another pager, PF_ERR_MEMORY, PF_ERR_SYSTEM without userfaultfd or /proc. Thread safe.
 */
typedef struct pf_pager pf_pager;
typedef int (*pf_supply_fn)(pf_context *context, uint64_t address, void *page, size_t length,
			    void *arg);
int pf_pager_register(pf_context *context, void *address, size_t length, pf_supply_fn supply,
		      void *arg, pf_pager **pager);
/*
 * Have supply called for unit bytes, aligned from the start of the range, instead of a page: a
 * multiple of the page size; the last unit of a range may be shorter. Present pages of the unit
 * stay. For contents that exist only in larger pieces, such as compressed contents. Two threads
 * that need pages of a unit at the same time may both call supply for the unit. Thread safe.
 */
int pf_pager_set_unit(pf_pager *pager, size_t unit);
/*
 * Have pages supplied before loads and stores of this process need the pages: after a page fault,
 * if the n bytes before the fault's unit are present without a gap, the next n bytes and a unit, at
 * most most bytes and in whole units. One unit is supplied at a time, and between units the service
 * thread does its other work. Pages that are evicted meanwhile may be supplied again. most is a
 * multiple of the page size; 0, the default: none. Thread safe.
 */
int pf_pager_set_ahead(pf_pager *pager, size_t most);
/* Drop the pages of a page-aligned part of the range; the contents are lost. Thread safe. */
int pf_pager_evict(pf_pager *pager, void *address, size_t length);
/*
 * Make the range ordinary memory and free the pager; waits for calls of supply. A page that supply
 * could not give to a load or store goes on to raise SIGBUS, unless pf_pager_evict has dropped the
 * page before. Thread safe.
 */
void pf_pager_unregister(pf_pager *pager);

/* ---- pf_send(3): messages between peers ---- */

/*
 * Send an active message: header, then payload, reach the peer's receive callback as one contiguous
 * piece (or pieces: pf_receive_pieces_fn), in order and exactly once. Both buffers are the
 * caller's again on return; either may be NULL if its length is 0. Long data belong into the
 * payload: only the payload goes past the caches where the peer's processor is far. Returns PF_OK
 * when libpf has taken the message, or an error: then nothing was sent. PF_ERR_AGAIN: the ring is
 * full; call pf_progress, then repeat, or repeat when told to (pf_room_fn). PF_ERR_TOO_LONG: more
 * than pf_attributes.send_max. Otherwise as pf_put.
 */
int pf_send(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length);

/*
 * Send as pf_send does, with a payload that pack writes: exactly length bytes to destination. pack
 * is called at most once, before pf_send_pack returns; pack must not call libpf.
 */
typedef void (*pf_pack_fn)(void *destination, size_t length, void *arg);
int pf_send_pack(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
		 size_t length, pf_pack_fn pack, void *arg);

enum pf_atomic_op {
	PF_ATOMIC_ADD,
	PF_ATOMIC_AND,
	PF_ATOMIC_OR,
	PF_ATOMIC_XOR,
	PF_ATOMIC_SWAP,
	PF_ATOMIC_COMPARE_SWAP,
};

/* ---- pf_atomic(3): atomic operation on a peer's memory ---- */

/*
 * Change the aligned integer of width 4 or 8 bytes at remote in the peer. operand is added,
 * combined or stored; PF_ATOMIC_COMPARE_SWAP stores operand if the integer equals compare. The
 * change is atomic towards all processors of the peer's host. The value before is in
 * pf_completion.value. The peer executes the atomic in pf_progress; between
 * hosts also on the service thread, but not in memory of a pager; or /dev/exanest does. Returns
 * PF_PENDING, or an error as pf_put does; never PF_OK.
 */
int pf_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
	      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);

/* ---- pf_progress(3): make transfers and messages progress ---- */

/*
 * Call pf_progress until all transfers and atomics posted to peer (NULL: to all peers) before the
 * call are complete, or until timeout microseconds have passed; then PF_ERR_TIMEOUT, and the
 * operations go on. A negative timeout (PF_FOREVER) never ends: pf_flush does not return while a
 * peer that has to take part is alive but does not call pf_progress. With pf_options.wake, pf_flush
 * sleeps as pf_wait does once polls have found nothing for long.
 *
 * Returns the first error, since the last flush, of an operation without a completion function to
 * peer (NULL: to any peer), and forgets all errors of these operations; PF_OK if there is none.
 * Each error is returned once, to the flush of the peer or to the flush of all. Completion
 * functions have the errors of other operations. PF_ERR_TIMEOUT is also the error of an operation
 * with a peer that fell silent: then pf_flush_test does not return PF_PENDING. In a callback
 * pf_flush returns PF_ERR_ARGUMENT, waits for nothing and forgets no error.
 */
#define PF_FOREVER (-1)
int pf_flush(pf_context *context, pf_peer *peer, int64_t timeout);

/* ---- pf_posted(3): test whether transfers and atomics are complete ---- */

/*
 * Flush without waiting. pf_posted returns a mark for all transfers and atomics posted to peer
 * (NULL: to all peers) until now. pf_flush_test, with the peer of the mark, returns PF_PENDING
 * while an operation before the mark is open, and from then on PF_OK or an error, as pf_flush
 * returns and forgets errors. Operations complete in any order: newer operations do not count, but
 * their errors do, and PF_PENDING does not tell how many of the older operations are open. An
 * operation is open until the completion callback has returned. Neither calls pf_progress; both
 * may be called from callbacks. A mark is never used up; 0 is the mark of a context that has posted
 * nothing.
 */
uint64_t pf_posted(const pf_context *context, const pf_peer *peer);
int pf_flush_test(pf_context *context, pf_peer *peer, uint64_t mark);

/* ---- pf_progress(3) ---- */

/*
 * Take arrived messages, move blocks, call callbacks. Returns how many things happened, 0 if none.
 * Never waits for a page, and never sleeps, but under SCHED_FIFO or SCHED_RR while only pages are
 * awaited: libpf(7). While a peer is being connected, empty calls yield the processor to the thread
 * that connects (sched_yield(2)), for a millisecond at most, and not with the option wake. If
 * another thread is in pf_progress or pf_wait, returns 0 at once.
 */
int pf_progress(pf_context *context);

/* ---- pf_wait(3): sleep until libpf has something to do ---- */

/*
 * Make progress as pf_progress does, and if nothing happens sleep until something does, for at most
 * timeout microseconds; PF_FOREVER: without an end. Returns how many things happened. PF_OK (0):
 * nothing until the timeout, or woken without a result: look for what the program waits for, and
 * call again.
 *
 * What wakes pf_wait: messages, parts of transfers and atomics from peers, answers, resolved pages,
 * the end of a peer, an operation of another thread, and pf_wake. With pf_options.wake all wake at
 * once. Without pf_options.wake peers of this host wake nothing, and pf_wait looks for messages each
 * millisecond. While something is under way that tells of nothing, such as room in a full ring,
 * pf_wait looks some hundred times, and then each millisecond. A look each 100 ms finds the message
 * of a peer whose store came late. Nothing else wakes pf_wait. A put by single
 * copy or from another host changes memory without a wake, and so does a PF_SIGNAL_ADD or
 * PF_SIGNAL_SET from another host: a program that loads such a word, or waits for something without
 * libpf, gives a timeout.
 *
 * A timeout of 0 yields the processor once in place of a sleep (sched_yield(2)). In a callback, 0
 * at once. While another thread is in pf_progress or pf_wait, pf_wait sleeps for a millisecond at
 * most, and returns PF_OK.
 */
int pf_wait(pf_context *context, int64_t timeout);

/* ---- pf_descriptor(3): wait for libpf with poll(2) ---- */

/*
 * For programs with an event loop of their own: instead of calling pf_progress again and again,
 * wait for a descriptor, together with others.
 *
 * pf_descriptor stores in *fd a descriptor that poll(2) and epoll(7) report readable when
 * pf_progress may have something to do, after pf_arm. The first call makes the descriptor, and a
 * thread that waits. Make the first call before pf_join, and before the address is given to other
 * processes, which learn on connecting that they have to ring. The descriptor is libpf's: do not
 * read or close the descriptor. Valid until pf_close. Returns PF_OK; PF_ERR_ARGUMENT if a peer has
 * connected before the first call; PF_ERR_SYSTEM.
 */
int pf_descriptor(pf_context *context, int *fd);
/*
 * Call pf_arm before each wait, after everything else. PF_OK: there is nothing to do, and the
 * descriptor becomes readable as soon as there is, at the latest after 100 ms; the
 * descriptor may also become readable without a reason. PF_ERR_AGAIN: do not wait, call
 * pf_progress, and then pf_arm again; also while another thread is in pf_progress, and in a
 * callback. No process tells of room in its ring: while anything waits for room, PF_ERR_AGAIN for
 * some hundred calls, and then PF_OK for a millisecond at a time. PF_ERR_ARGUMENT without
 * pf_descriptor. A call of pf_progress, by any thread, may undo pf_arm. Thread safe as pf_progress
 * is.
 */
int pf_arm(pf_context *context);
/*
 * Make the descriptor readable, if there is one, and end a sleep in pf_wait. If neither waits, the
 * next pf_arm returns PF_ERR_AGAIN, or the next pf_wait does not sleep. Thread safe.
 */
void pf_wake(pf_context *context);

/*
 * Counters of a context, which only grow. Each has a constant, a name in pf_stat_table, and a
 * meaning, a phrase. Here is the only list: pf_stat(3), pf_info --job and MPI_T show the texts.
 */
/* clang-format off */
#define PF_STATISTICS(STATISTIC) \
	STATISTIC(PF_STAT_SENDS, "sends", "messages sent") \
	STATISTIC(PF_STAT_SEND_BYTES, "send_bytes", "bytes of messages sent, header and payload") \
	STATISTIC(PF_STAT_RECEIVES, "receives", "messages received") \
	STATISTIC(PF_STAT_RECEIVE_BYTES, "receive_bytes", \
		  "bytes of messages received, header and payload") \
	STATISTIC(PF_STAT_PUTS, "puts", "puts completed without error") \
	STATISTIC(PF_STAT_GETS, "gets", "gets completed without error") \
	STATISTIC(PF_STAT_ATOMICS, "atomics", "atomic operations completed without error") \
	STATISTIC(PF_STAT_SINGLE_COPY_BYTES, "single_copy_bytes", \
		  "bytes that this process moved by single copy for its own transfers") \
	STATISTIC(PF_STAT_SHARED_BYTES, "shared_bytes", \
		  "bytes that this process moved by single copy for transfers of its peers, from " \
		  "the other end") \
	STATISTIC(PF_STAT_STREAM_BYTES, "stream_bytes", \
		  "bytes that this process moved through the ring for its own transfers") \
	STATISTIC(PF_STAT_DEVICE_BYTES, "device_bytes", \
		  "bytes of transfers that /dev/exanest moved; each process counts the page " \
		  "faults of its own memory") \
	STATISTIC(PF_STAT_LOCAL_FAULTS, "local_faults", \
		  "blocks that met a page fault in this process") \
	STATISTIC(PF_STAT_REMOTE_FAULTS, "remote_faults", \
		  "blocks that met a page fault in a peer of this host") \
	STATISTIC(PF_STAT_LOCAL_MINOR, "local_minor_faults", \
		  "page faults found in this process on memory never touched, with those that " \
		  "the kernel resolved without parking a block") \
	STATISTIC(PF_STAT_LOCAL_MAJOR, "local_major_faults", \
		  "page faults in this process on pages in swap or in a file") \
	STATISTIC(PF_STAT_LOCAL_PAGER, "local_pager_faults", \
		  "page faults in this process on pages that a pager supplies") \
	STATISTIC(PF_STAT_LOCAL_PERMISSION, "local_permission_faults", \
		  "page faults in this process that cannot be resolved: not mapped, or access not " \
		  "permitted") \
	STATISTIC(PF_STAT_REMOTE_MINOR, "remote_minor_faults", \
		  "page faults found in the peer on memory never touched, with those that the " \
		  "kernel resolved without parking a block") \
	STATISTIC(PF_STAT_REMOTE_MAJOR, "remote_major_faults", \
		  "page faults in the peer on pages in swap or in a file") \
	STATISTIC(PF_STAT_REMOTE_PAGER, "remote_pager_faults", \
		  "page faults in the peer on pages that a pager supplies") \
	STATISTIC(PF_STAT_REMOTE_PERMISSION, "remote_permission_faults", \
		  "page faults in the peer that cannot be resolved: not mapped, or access not " \
		  "permitted") \
	STATISTIC(PF_STAT_RETRANSMITS, "retransmits", \
		  "times that a block was retransmitted, or moved for the first time, after its " \
		  "page fault was resolved; between hosts also atomic operations executed then") \
	STATISTIC(PF_STAT_FAULT_ERRORS, "fault_errors", "operations that ended with PF_ERR_FAULT") \
	STATISTIC(PF_STAT_RING_FULL, "ring_full", \
		  "messages refused with PF_ERR_AGAIN: no room in a ring or, between hosts, in a " \
		  "window") \
	STATISTIC(PF_STAT_COLLAPSED, "collapsed", \
		  "times that a 2 MiB range of an often used buffer became a huge page, or was one") \
	STATISTIC(PF_STAT_SLEEPS, "sleeps", \
		  "times pf_wait or pf_flush slept because there was nothing to do") \
	STATISTIC(PF_STAT_PEERS, "peers", "peers connected") \
	STATISTIC(PF_STAT_NET_SENT, "net_sent", "packets sent to other hosts") \
	STATISTIC(PF_STAT_NET_RECEIVED, "net_received", "packets received from other hosts") \
	STATISTIC(PF_STAT_NET_BYTES, "net_bytes", "bytes of the packets sent to other hosts") \
	STATISTIC(PF_STAT_NET_LOST, "net_lost", \
		  "packets to other hosts that were lost; their contents were retransmitted") \
	STATISTIC(PF_STAT_NET_DROPPED, "net_dropped", \
		  "packets from other hosts dropped because a socket buffer was full") \
	STATISTIC(PF_STAT_NET_NACKS, "net_nacks", \
		  "blocks of other hosts refused because a page here was absent: the host retransmits them") \
	STATISTIC(PF_STAT_NET_MALFORMED, "net_malformed", \
		  "packets dropped: not of a packet's form") \
	STATISTIC(PF_STAT_NET_UNKNOWN, "net_unknown", \
		  "packets dropped: for no association of this process, such as late ones for one " \
		  "that ended") \
	STATISTIC(PF_STAT_NET_UNEXPECTED, "net_unexpected", \
		  "packets dropped: not in the state that their association is in") \
	STATISTIC(PF_STAT_NET_DIFFERENT, "net_different", \
		  "packets dropped: from a process with other options") \
	STATISTIC(PF_STAT_NET_FORGED, "net_forged", "packets dropped: with a wrong tag") \
	STATISTIC(PF_STAT_NET_REPLAYED, "net_replayed", \
		  "packets dropped: with a number that was seen before") \
	STATISTIC(PF_STAT_NET_REFUSED, "net_refused", \
		  "packets dropped: with contents that are not valid, or find no room or memory") \
	STATISTIC(PF_STAT_FLUSH_ERRORS, "flush_errors", \
		  "operations without a completion function that ended with an error, for pf_flush") \
	STATISTIC(PF_STAT_NOT_EXPOSED, "not_exposed", \
		  "checks that refused a peer: an address not exposed, or not with the right")
/* clang-format on */

#define PF_STATISTIC_CONSTANT(constant, name, help) constant,
enum pf_stat { PF_STATISTICS(PF_STATISTIC_CONSTANT) PF_STAT_COUNT };
#undef PF_STATISTIC_CONSTANT

/* The entries do not grow in later versions. */
typedef struct pf_stat_info {
	const char *name; /* "single_copy_bytes" */
	const char *help; /* one phrase */
} pf_stat_info;

/* ---- pf_stat(3): statistics of a context ---- */

/*
 * Return names and meanings, static: PF_STAT_COUNT entries, to which later versions append more.
 * Thread safe.
 */
const pf_stat_info *pf_stat_table(void);
/* Return a counter; 0 for an unknown counter. Thread safe. */
uint64_t pf_stat(const pf_context *context, enum pf_stat stat);

/*
 * Return how many faults were resolved in less than 2^(bucket + 8) ns, but not in less than half of
 * the time; the time begins when the fault is noticed, and ends when the block is ready to move.
 * The first bucket includes all shorter times, the last all longer times. 0 for an unknown bucket.
 * Thread safe.
 */
#define PF_RESOLVE_BUCKETS 24
uint64_t pf_stat_resolve_time(const pf_context *context, unsigned bucket);

/* Later versions may add fields at the end. */
typedef struct pf_capability {
	const char *name; /* "single copy"; static */
	int available;    /* 0 or 1 */
	char detail[192]; /* the result of the test, or why not available */
} pf_capability;

/* ---- pf_capabilities(3): offers of this machine to libpf ---- */

/*
 * Try the capabilities of this machine and fill list, which has room for most entries of size
 * bytes, sizeof(*list): fields unknown to the running version become 0. Returns how many were
 * filled. Starts no process and no thread. Thread safe while no thread changes the environment.
 */
int pf_capabilities(pf_capability *list, size_t size, int most);

/*
 * Store the path of the calibration file that pf_options_init reads, cut to size bytes: the user's,
 * or the system's if only the system's was made on this machine. The file need not exist. Returns
 * the length as snprintf does. Thread safe while no thread changes the environment.
 */
int pf_calibration_path(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
