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
 *   - int functions return PF_OK (0) or PF_DONE (1), or a negative PF_ERR_*;
 *   - the caller owns all arguments; libpf does not keep a pointer to an argument
 *     after the call. Texts that libpf returns are static;
 *   - one thread at a time may use a context and its peers; any number of
 *     threads at the same time if pf_options.threads is 1, or after pf_allow_threads.
 *     "Thread safe" on a function means: by any threads at the same time, with any
 *     options;
 *   - callbacks run inside pf_progress, or inside pf_flush, which calls pf_progress, on
 *     the calling thread. A callback may call pf_send, pf_send_pack, pf_put,
 *     pf_get, pf_atomic, pf_posted, pf_flush_test and pf_wake. pf_progress called
 *     from a callback returns 0 at once;
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

#define PF_VERSION_MAJOR 0
#define PF_VERSION_MINOR 2

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
	PF_OK = 0,               /* success, or accepted: the completion callback will follow */
	PF_DONE = 1,             /* complete on return; no callback follows */
	PF_ERR_AGAIN = -1,       /* no room now: call pf_progress, then repeat the call */
	PF_ERR_FAULT = -2,       /* an address cannot be resolved: see pf_completion */
	PF_ERR_PEER = -3,        /* the peer's process ended or closed its context */
	PF_ERR_UNREACHABLE = -4, /* no transport reaches this address, or no answer ever came */
	PF_ERR_ARGUMENT = -5,    /* an argument is out of range */
	PF_ERR_MEMORY = -6,      /* out of memory */
	PF_ERR_TOO_LONG = -7,    /* longer than pf_attributes.send_max */
	PF_ERR_REFUSED = -8,     /* wrong key or other version */
	PF_ERR_SYSTEM = -9,      /* a system call failed: errno says why */
	PF_ERR_TIMEOUT = -10,    /* nothing came from the peer for pf_options.peer_timeout */
	PF_ERR_PROTOCOL = -11,   /* the peer broke the protocol */
};

/* ---- pf_strerror(3): text for a status of libpf ---- */

/* Return a short English text for any status; static, never NULL. Thread safe. */
const char *pf_strerror(int status);

/* Effect of pf_register on a buffer. Transfers take page faults in every mode. */
enum pf_mode {
	PF_MODE_FAULT,     /* nothing: a fault is resolved when a block meets it */
	PF_MODE_PREFAULT,  /* touch every page */
	PF_MODE_PIN,       /* lock the pages in memory until pf_deregister */
	PF_MODE_PIN_CACHE, /* lock; pf_deregister leaves the pages locked for the next time */
};

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
typedef struct pf_options {
	size_t size;              /* of the structure, set by pf_options_init */
	uint64_t ring_size;       /* bytes */
	uint64_t ring_memory;     /* bytes */
	uint64_t eager_limit;     /* bytes */
	uint64_t share_min;       /* bytes */
	uint64_t run_max;         /* bytes */
	uint64_t block_size;      /* bytes */
	uint64_t operations_max;  /* puts, gets and atomics; 0: no limit */
	uint64_t single_copy;     /* 0 or 1 */
	uint64_t transport;       /* enum pf_transport */
	uint64_t mode;            /* enum pf_mode */
	uint64_t policy;          /* enum pf_policy */
	uint64_t residency;       /* microseconds; 0: never trusted */
	uint64_t fault_retries;   /* times */
	uint64_t resolve_share;   /* percent of one processor */
	uint64_t collapse;        /* bytes; 0: never */
	uint64_t idle_polls;      /* calls of pf_progress; 0: sleep only while connecting */
	uint64_t idle_sleep;      /* microseconds */
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
} pf_options;

/* An option that is a number. The entries do not grow in later versions. */
typedef struct pf_option_info {
	const char *name; /* "eager_limit"; the environment variable is PF_EAGER_LIMIT */
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
	const char *name; /* "if_include"; the environment variable is PF_IF_INCLUDE */
	const char *help; /* one sentence */
	size_t offset;    /* of the const char * in pf_options; as in pf_option_info */
	int level;        /* as in pf_option_info */
} pf_text_info;

/* Return the options that are texts; static, ended by an entry without a name. Thread safe. */
const pf_text_info *pf_text_table(void);

/*
 * A good idle_polls for processes on a shared core. The default, 0, suits a core for each process.
 */
#define PF_IDLE_POLLS_SHARED_CORE 1000

/*
 * Fill *options with the built-in defaults, then the machine's calibration file, then the PF_*
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
 * Describe why pf_open(options, ...) returns PF_ERR_ARGUMENT: name, value and permitted values of
 * the first invalid option; of the first invalid PF_* variable if options is NULL; a wrong size, or
 * set options of a newer version. Stores at most size bytes and returns the length as snprintf
 * does; 0 if all are valid. Thread safe while no thread changes the environment.
 */
int pf_options_error(const pf_options *options, char *buffer, size_t size);

/*
 * Open a context, which stands for this process; one per process is the rule. *options is copied;
 * NULL means the options of pf_options_init. A context costs a service thread (asleep unless a peer
 * connects, ends or asks for a page), sockets and two pages of shared memory, one of which holds
 * the statistics for pf_info --job. Returns PF_ERR_ARGUMENT for an option out of range or, if
 * options is NULL, an invalid PF_* variable; PF_ERR_MEMORY; PF_ERR_SYSTEM. Thread safe as
 * pf_options_init is. A context does not survive fork: the child must not use the context.
 */
int pf_open(const pf_options *options, pf_context **context);

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
 * *length. PF_ADDRESS_MAX bytes are always enough; PF_ERR_ARGUMENT if *length is too short. An
 * address is opaque bytes, to be handed to other processes out of band (a modex, a file, a pipe).
 * The address contains the key to this process's memory: treat the address as a secret of the job.
 * Thread safe.
 */
#define PF_ADDRESS_MAX 256
int pf_address(const pf_context *context, void *buffer, size_t *length);

/*
 * Return PF_OK if a transport reaches the owner of this address,
 * PF_ERR_UNREACHABLE if none does, PF_ERR_ARGUMENT if the bytes are not an address
 * of this version. Unless why is NULL, *why is a text with the reason, valid until
 * pf_close.
 * Sends nothing: the process may have ended. Thread safe.
 */
int pf_reachable(const pf_context *context, const void *address, size_t length, const char **why);

/*
 * Make a peer from an address; the context's own is allowed. Nothing is sent before first use. user
 * is the result of pf_peer_user. Opening an address again returns the first peer and counts. A peer
 * belongs to the context, and is valid until pf_close, also after the end of the peer's process.
 * Errors as pf_reachable's, and PF_ERR_MEMORY.
 */
int pf_peer_open(pf_context *context, const void *address, size_t length, void *user,
		 pf_peer **peer);
/*
 * Drop one count; with the last, pf_peer_user becomes NULL. Frees nothing: transfers in flight go
 * on, messages still arrive, and the pointer stays valid.
 */
void pf_peer_close(pf_peer *peer);
/* Return the user pointer; NULL for a peer that is not open. Thread safe. */
void *pf_peer_user(const pf_peer *peer);
/*
 * Return how bytes reach the peer and why, e.g. "through the ring: single_copy is 0"; of a peer
 * that has failed, the reason. Valid until pf_close. The text changes when the first use finds out.
 * A text that begins with PF_PATH_RING says that transfers go through the ring: then a message is
 * the faster way to move the same bytes. Thread safe.
 */
#define PF_PATH_RING "through the ring"
const char *pf_peer_path(const pf_peer *peer);

/*
 * Find out whether the peer answers, and send nothing else. Returns PF_OK if the peer does, or is
 * on this host: then pf_peer_contact begins to connect, for which the first message would wait.
 * PF_ERR_UNREACHABLE if the peer rejects packets, or has not answered within
 * pf_options.contact_timeout: then the peer has failed for good, without a call of the error
 * callback, and later peers of the peer's host without an answer yet fail likewise; PF_ERR_AGAIN if
 * the outcome is not known yet; PF_ERR_MEMORY. wait 0: only begin. wait 1: wait for the answer;
 * PF_ERR_AGAIN only from a callback, or while another thread is inside a callback for long. Calls
 * no callback. Unless why is NULL, *why is a text with the reason, valid until pf_close.
 */
int pf_peer_contact(pf_peer *peer, int wait, const char **why);

/* The side whose memory an address is in. */
enum pf_side { PF_SIDE_NONE, PF_SIDE_LOCAL, PF_SIDE_REMOTE };

typedef struct pf_completion {
	int status;        /* PF_OK or PF_ERR_* */
	enum pf_side side; /* with PF_ERR_FAULT: whose memory; otherwise PF_SIDE_NONE */
	uint64_t address;  /* with PF_ERR_FAULT: where resolving failed */
	uint64_t value;    /* of pf_atomic: the integer before the operation */
	void *arg;         /* as given to the operation */
} pf_completion;

/* ---- pf_put(3): move bytes to or from a peer's memory ---- */

/* Called once for an operation that returned PF_OK. *completion is valid during the call. */
typedef void (*pf_complete_fn)(pf_context *context, const pf_completion *completion);

/*
 * Copy length bytes from local to the address remote in the peer (put), or from remote to local
 * (get). Both buffers belong to the transfer until completion; a put is complete when the bytes are
 * in the peer's memory. Until then each byte of a put's destination is the old byte or the put's,
 * in any order; the contents of a get's destination are undefined. Returns
 *   PF_DONE  the transfer is complete; complete is not called;
 *   PF_OK    complete will be called, unless complete is NULL;
 *   PF_ERR_* nothing is on the way; complete is not called. PF_ERR_AGAIN only with
 *            pf_options.operations_max: so many operations are unfinished (see
 *            pf_set_room).
 * An error may come on return or as the completion's status, whichever is first: handle both alike
 * (pf_put(3) has the pattern). After an error other than PF_ERR_AGAIN the contents of the
 * destination are undefined; memory outside of the destination was not changed.
 */
int pf_put(pf_peer *peer, const void *local, uint64_t remote, size_t length,
	   pf_complete_fn complete, void *arg);
int pf_get(pf_peer *peer, void *local, uint64_t remote, size_t length, pf_complete_fn complete,
	   void *arg);

/* ---- pf_register(3): prepare a buffer, for comparison with networks with registration ---- */

/*
 * Make [address, address + length) ready as pf_options.mode says, for comparison
 * with networks that need registration; transfers do not. write: transfers will
 * write there. *registration is for pf_deregister, NULL if there is nothing to
 * undo. Returns PF_OK; PF_DONE if there was nothing to do, as always in
 * PF_MODE_FAULT; PF_ERR_FAULT for a page that is not mapped or not permitted;
 * PF_ERR_MEMORY when the limit of locked memory (ulimit -l) is reached;
 * PF_ERR_SYSTEM. Thread safe.
 */
typedef struct pf_registration pf_registration;
int pf_register(pf_context *context, void *address, size_t length, int write,
		pf_registration **registration);
/* Undo pf_register and free the registration; NULL is allowed. Thread safe. */
void pf_deregister(pf_context *context, pf_registration *registration);

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
 * piece (or pieces: pf_set_receive_pieces), in order and exactly once. Both buffers are the
 * caller's again on return; either may be NULL if its length is 0. Long data belong into the
 * payload: only the payload goes past the caches where the peer's processor is far. Returns PF_DONE
 * when libpf has taken the message, or an error: then nothing was sent. PF_ERR_AGAIN: the ring is
 * full; call pf_progress, then repeat, or repeat when told to (pf_set_room). PF_ERR_TOO_LONG: more
 * than pf_attributes.send_max. Otherwise as pf_put.
 */
int pf_send(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length);

/*
 * Send as pf_send does, with a payload that pack writes: exactly length bytes to destination. pack
 * is called at most once, before pf_send_pack returns; pack must not call libpf.
 */
typedef void (*pf_pack_fn)(void *destination, size_t length, void *arg);
int pf_send_pack(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		 size_t length, pf_pack_fn pack, void *arg);

/*
 * Called for each message that arrives. from is the pointer that pf_peer_open returns for the
 * sender's address, whether or not the address was opened, and valid until pf_close. data is valid
 * during the call and aligned to 8 bytes. The sender can still change data: copy values before a
 * check and use, unless the peer is trusted.
 */
typedef void (*pf_receive_fn)(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			      size_t length, void *arg);
/*
 * Set the receive callback before the address is given to other processes; without the callback
 * messages are dropped. Not while another thread uses the context.
 */
void pf_set_receive(pf_context *context, pf_receive_fn receive, void *arg);

#define PF_PIECES_MOST 16  /* of a message */
#define PF_PIECE_FIRST 128 /* bytes, at least, of the first of several */

/*
 * Called, instead of pf_set_receive's function, for a message that arrives in pieces, as long
 * messages do: count pieces from 2 to PF_PIECES_MOST. The first piece has at least PF_PIECE_FIRST
 * bytes and is aligned to 8 bytes, and all but the last have a multiple of 8. Messages in one
 * piece, and without this function all messages, go to pf_set_receive's.
 */
typedef void (*pf_receive_pieces_fn)(pf_context *context, pf_peer *from, uint8_t tag,
				     const struct iovec *pieces, unsigned count, void *arg);
/* See pf_set_receive. */
void pf_set_receive_pieces(pf_context *context, pf_receive_pieces_fn receive, void *arg);

/*
 * Called once for a peer whose process died or that rejected the connection, after all unfinished
 * operations with the peer have completed with an equal status. Not called for a peer that closed
 * its context, except before the first contact: then closing looks like death. text is valid during
 * the call.
 */
typedef void (*pf_error_fn)(pf_context *context, pf_peer *peer, int status, const char *text,
			    void *arg);
/* See pf_set_receive. */
void pf_set_error(pf_context *context, pf_error_fn error, void *arg);

/*
 * Called once for each host with a peer that has not answered the first contact within
 * pf_options.contact_timeout, as behind a firewall. libpf still tries the peer, which may be slow,
 * or stopped by a debugger. text says by which address, port and interface, and is valid during the
 * call. With peer NULL: packets that arrived were dropped, how many and why; at most once in 10 s,
 * and not if a network that repeats or delays packets is enough to explain the drops.
 */
typedef void (*pf_warning_fn)(pf_context *context, pf_peer *peer, const char *text, void *arg);
/* See pf_set_receive. */
void pf_set_warning(pf_context *context, pf_warning_fn warning, void *arg);

/* ---- pf_set_room(3): repeat a call refused with PF_ERR_AGAIN ---- */

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
/* See pf_set_receive. Without room, repeat the call after pf_progress. */
void pf_set_room(pf_context *context, pf_room_fn room, void *arg);

enum pf_atomic_op { PF_ADD, PF_AND, PF_OR, PF_XOR, PF_SWAP, PF_COMPARE_SWAP };

/* ---- pf_atomic(3): atomic operation on a peer's memory ---- */

/*
 * Change the aligned integer of width 4 or 8 bytes at remote in the peer. operand is added,
 * combined or stored; PF_COMPARE_SWAP stores operand if the integer equals compare. The change is
 * atomic towards all processors of the peer's host. The value before is in pf_completion.value;
 * fetch 0: not wanted. The peer executes the atomic in pf_progress; between hosts also on the
 * service thread, but not in memory of a pager; or /dev/exanest does. Returns PF_OK, or an error as
 * pf_put does; never PF_DONE.
 */
int pf_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, int fetch, uint64_t remote,
	      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);

/* ---- pf_progress(3): make transfers and messages progress ---- */

/*
 * Call pf_progress until all transfers and atomics posted to peer (NULL: to all peers) before the
 * call are complete. pf_flush does not return while a peer that has to take part is alive but does
 * not call pf_progress. Returns PF_OK, also if operations failed: the callbacks have the status.
 * Not from a callback.
 */
int pf_flush(pf_context *context, pf_peer *peer);

/* ---- pf_posted(3): test whether transfers and atomics are complete ---- */

/*
 * Flush without waiting. pf_posted returns a mark for all transfers and atomics posted to peer
 * (NULL: to all peers) until now. pf_flush_test, with the peer of the mark, returns PF_DONE once no
 * operation before the mark is open, with or without an error, and from then on; until then
 * PF_ERR_AGAIN. Operations complete in any order: newer operations do not count, and PF_ERR_AGAIN
 * does not tell how many of the older operations are open. An operation is open until the
 * completion callback has returned. Neither calls pf_progress; both may be called from callbacks. A
 * mark is never used up; 0 is the mark of a context that has posted nothing.
 */
uint64_t pf_posted(const pf_context *context, const pf_peer *peer);
int pf_flush_test(pf_context *context, pf_peer *peer, uint64_t mark);

/* ---- pf_progress(3) ---- */

/*
 * Take arrived messages, move blocks, call callbacks. Returns how many things happened, 0 if none.
 * Never waits for a page; sleeps only as pf_options.idle_polls says, and for up to 50 us at a time
 * while peers are being connected. If another thread is in pf_progress, returns 0 at once.
 */
int pf_progress(pf_context *context);

/* ---- pf_descriptor(3): wait for libpf with poll(2) ---- */

/*
 * For programs with an event loop of their own: instead of calling pf_progress again and again,
 * wait for a descriptor, together with others.
 *
 * pf_descriptor stores in *fd a descriptor that poll(2) and epoll(7) report readable when
 * pf_progress may have something to do, after pf_arm. The first call makes the descriptor, and a
 * thread that waits. Make the first call, as calls of pf_set_receive, before the address is given
 * to other processes, which learn on connecting that they have to ring, and before pf_join. The
 * descriptor is libpf's: do not read or close the descriptor. Valid until pf_close. Returns PF_OK;
 * PF_ERR_ARGUMENT if a peer has connected before the first call; PF_ERR_SYSTEM.
 */
int pf_descriptor(pf_context *context, int *fd);
/*
 * Call pf_arm before each wait, after everything else. PF_OK: there is nothing to do, and the
 * descriptor becomes readable as soon as there is, at the latest after pf_options.idle_sleep; the
 * descriptor may also become readable without a reason. PF_ERR_AGAIN: do not wait, call
 * pf_progress, and then pf_arm again; also while another thread is in pf_progress, and in a
 * callback. No process tells of room in its ring: while anything waits for room, PF_ERR_AGAIN for
 * some hundred calls, and then PF_OK for a millisecond at a time. PF_ERR_ARGUMENT without
 * pf_descriptor. A call of pf_progress, by any thread, may undo pf_arm. Thread safe as pf_progress
 * is.
 */
int pf_arm(pf_context *context);
/*
 * Make the descriptor readable, if there is one, and end a sleep of pf_progress. If neither waits,
 * the next pf_arm returns PF_ERR_AGAIN, or the next sleep of pf_progress does not begin. Thread
 * safe.
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
	STATISTIC(PF_STAT_PREFAULT_BYTES, "prefault_bytes", \
		  "bytes of buffers whose pages pf_register touched before a transfer") \
	STATISTIC(PF_STAT_PIN_BYTES, "pin_bytes", \
		  "bytes of buffers that pf_register locked in memory for a transfer") \
	STATISTIC(PF_STAT_PIN_CACHE_BYTES, "pin_cache_bytes", \
		  "bytes of buffers that pf_register found in or added to the cache of locked " \
		  "memory") \
	STATISTIC(PF_STAT_DEVICE_BYTES, "device_bytes", \
		  "bytes of transfers that /dev/exanest moved; each process counts the page " \
		  "faults of its own memory") \
	STATISTIC(PF_STAT_LOCAL_FAULTS, "local_faults", \
		  "blocks that met a page fault in this process") \
	STATISTIC(PF_STAT_REMOTE_FAULTS, "remote_faults", \
		  "blocks that met a page fault in a peer of this host") \
	STATISTIC(PF_STAT_LOCAL_MINOR, "local_minor_faults", \
		  "page faults in this process on memory never touched, with those that the " \
		  "kernel settled without parking a block") \
	STATISTIC(PF_STAT_LOCAL_MAJOR, "local_major_faults", \
		  "page faults in this process on pages in swap or in a file") \
	STATISTIC(PF_STAT_LOCAL_PAGER, "local_pager_faults", \
		  "page faults in this process on pages that a pager supplies") \
	STATISTIC(PF_STAT_LOCAL_PERMISSION, "local_permission_faults", \
		  "page faults in this process that cannot be resolved: not mapped, or access not " \
		  "permitted") \
	STATISTIC(PF_STAT_REMOTE_MINOR, "remote_minor_faults", \
		  "page faults in the peer on memory never touched, with those that the kernel " \
		  "settled without parking a block") \
	STATISTIC(PF_STAT_REMOTE_MAJOR, "remote_major_faults", \
		  "page faults in the peer on pages in swap or in a file") \
	STATISTIC(PF_STAT_REMOTE_PAGER, "remote_pager_faults", \
		  "page faults in the peer on pages that a pager supplies") \
	STATISTIC(PF_STAT_REMOTE_PERMISSION, "remote_permission_faults", \
		  "page faults in the peer that cannot be resolved: not mapped, or access not " \
		  "permitted") \
	STATISTIC(PF_STAT_RETRANSMITS, "retransmits", \
		  "blocks retransmitted after their page fault was resolved") \
	STATISTIC(PF_STAT_FAULT_ERRORS, "fault_errors", "operations that ended with PF_ERR_FAULT") \
	STATISTIC(PF_STAT_RING_FULL, "ring_full", \
		  "messages refused with PF_ERR_AGAIN: no room in a ring or, between hosts, in a " \
		  "window") \
	STATISTIC(PF_STAT_COLLAPSED, "collapsed", \
		  "2 MiB ranges of often used buffers made huge pages") \
	STATISTIC(PF_STAT_SLEEPS, "sleeps", \
		  "times pf_progress slept because there was nothing to do") \
	STATISTIC(PF_STAT_PEERS, "peers", "peers connected") \
	STATISTIC(PF_STAT_NET_SENT, "net_sent", "packets sent to other hosts") \
	STATISTIC(PF_STAT_NET_RECEIVED, "net_received", "packets received from other hosts") \
	STATISTIC(PF_STAT_NET_BYTES, "net_bytes", "bytes of the packets sent to other hosts") \
	STATISTIC(PF_STAT_NET_LOST, "net_lost", \
		  "packets to other hosts that were lost; their contents were retransmitted") \
	STATISTIC(PF_STAT_NET_DROPPED, "net_dropped", \
		  "packets from other hosts dropped because a socket buffer was full") \
	STATISTIC(PF_STAT_NET_NACKS, "net_nacks", \
		  "blocks of other hosts refused because a page here was absent: the host sends again") \
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
		  "packets dropped: with contents that are not valid, or find no room or memory")
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
 * the time; the time is from detection until the block was ready to move again. The first bucket
 * includes all shorter times, the last all longer times. 0 for an unknown bucket. Thread safe.
 */
#define PF_RESOLVE_BUCKETS 24
uint64_t pf_stat_resolve_time(const pf_context *context, unsigned bucket);

/* The entries do not grow in later versions. */
typedef struct pf_capability {
	const char *name; /* "single copy"; static */
	int available;    /* 0 or 1 */
	char detail[192]; /* the result of the test, or why not available */
} pf_capability;

/* ---- pf_capabilities(3): offers of this machine to libpf ---- */

/*
 * Try the capabilities of this machine and fill list, which has room for most entries. Returns how
 * many were filled. Forks a child and waits for the child. Thread safe while no thread changes the
 * environment.
 */
int pf_capabilities(pf_capability *list, int most);

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
