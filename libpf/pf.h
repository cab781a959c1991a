/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpf: a fault-tolerant DMA engine in user space.
 *
 * Any virtual address is a buffer: nothing is registered and nothing is
 * pinned. A transfer is cut into blocks; a block that meets an absent page is
 * parked, the page is resolved by the side that owns it, and the block is
 * sent again (ExaNeSt, arXiv 2511.21018; PART, IEEE TPDS 33/12, 2022).
 *
 * Conventions, unless a function says otherwise:
 *   - lengths and offsets are bytes;
 *   - functions return PF_OK (0) or PF_DONE (1), or a negative PF_ERR_*;
 *   - a context and all that hangs off it may be used by one thread at a
 *     time, or by any number of threads if it was opened with
 *     pf_options.threads = 1;
 *   - callbacks run inside pf_progress (or pf_flush, which calls it), on the
 *     thread that called it, with no lock held that pf_send, pf_put, pf_get
 *     or pf_atomic need: all four may be called from a callback. pf_progress
 *     called from a callback returns 0 at once;
 *   - nothing here prints, exits, or raises a signal.
 */
#ifndef PF_H
#define PF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PF_VERSION_MAJOR 0
#define PF_VERSION_MINOR 1

typedef struct pf_context pf_context;
typedef struct pf_peer pf_peer;

enum pf_status {
	PF_OK = 0,         /* accepted; a completion callback will follow where one was given */
	PF_DONE = 1,       /* already finished with success; no callback follows */
	PF_ERR_AGAIN = -1, /* no room now: call pf_progress and repeat */
	PF_ERR_FAULT = -2, /* an address could not be resolved: see pf_completion */
	PF_ERR_PEER = -3,  /* the peer's process is gone */
	PF_ERR_UNREACHABLE = -4, /* no transport reaches this address */
	PF_ERR_ARGUMENT = -5,    /* an argument is out of range */
	PF_ERR_MEMORY = -6,      /* out of memory */
	PF_ERR_TOO_LONG = -7,    /* longer than pf_attributes.send_max */
	PF_ERR_REFUSED = -8,     /* the peer refused us: wrong protection domain or version */
	PF_ERR_SYSTEM = -9,      /* a system call failed: errno is kept */
};

/* A short English text for any pf_status; never NULL. Thread safe. */
const char *pf_strerror(int status);

/*
 * How this process's buffers live with page faults. Only pf_register asks for
 * the mode; the engine itself takes faults in all of them.
 */
enum pf_mode {
	PF_MODE_FAULT,     /* nothing is done ahead: a fault is resolved where it happens */
	PF_MODE_PREFAULT,  /* pf_register touches every page */
	PF_MODE_PIN,       /* pf_register locks the pages in memory until pf_deregister */
	PF_MODE_PIN_CACHE, /* the same, but they stay locked in a cache for the next time */
};

/* How the resolver brings absent pages in. */
enum pf_policy {
	PF_POLICY_TOUCH,    /* the block that met the fault */
	PF_POLICY_AHEAD,    /* and more behind it, twice as much each time faults come in order */
	PF_POLICY_HUGE,     /* huge pages where a transfer covers them whole, otherwise touch */
	PF_POLICY_ADAPTIVE, /* huge and ahead, by what it saw */
};

/* When the network is used. */
enum pf_network {
	PF_NETWORK_OFF,
	PF_NETWORK_REMOTE, /* to processes that shared memory does not reach */
	PF_NETWORK_ALWAYS, /* to all others, for comparison and for tests */
};

/* What protects a packet between hosts; all processes of a job need the same. */
enum pf_auth {
	PF_AUTH_HEADER,  /* a keyed hash over all that says what is to be done */
	PF_AUTH_FULL,    /* and over the bytes that are moved */
	PF_AUTH_ENCRYPT, /* and nobody else can read those */
};

/* What the receiver of a block from the network does whose page is absent. */
enum pf_net_fault {
	PF_NET_FAULT_NACK,   /* asks for it again when the page is there (ExaNeSt) */
	PF_NET_FAULT_BACKUP, /* keeps it meanwhile (ASPLOS'17) */
};

/* What moves the bytes of transfers between processes of one host. */
enum pf_transport {
	PF_TRANSPORT_AUTO,   /* /dev/exanest where it reaches the peer, else the host's */
	PF_TRANSPORT_HOST,   /* process_vm_readv, process_vm_writev, shared memory */
	PF_TRANSPORT_DEVICE, /* /dev/exanest, or none */
};

/*
 * Options. Every field has a line in the option tables below, from which the
 * PF_* environment variables, MCA parameters and the manual are made.
 */
typedef struct pf_options {
	uint64_t ring_size; /* bytes of one ring (one direction between two processes), a power of two */
	uint64_t ring_memory; /* bytes that all rings together may grow by beyond their first 32 KiB each */
	uint64_t eager_limit; /* advice to users of pf_send: longer payloads are faster by pf_get */
	uint64_t share_min; /* transfers at least this long are moved from both ends by both processes */
	uint64_t run_max;    /* most bytes moved by one call to pf_progress for one transfer */
	uint64_t block_size; /* unit of faults and retransmission */
	uint64_t single_copy; /* 1: process_vm_readv/writev where permitted; 0: always through the ring */
	uint64_t transport; /* enum pf_transport */
	uint64_t mode;      /* enum pf_mode */
	uint64_t policy;    /* enum pf_policy */
	uint64_t residency; /* microseconds for which memory found present is trusted to be so; 0: never */
	uint64_t fault_retries; /* resolve attempts for one block before PF_ERR_FAULT */
	uint64_t resolve_share; /* percent of a processor that resolving takes from a busy pf_progress */
	uint64_t collapse; /* bytes moved in a 2 MiB range before it is made a huge page; 0: never */
	uint64_t idle_polls; /* empty calls of pf_progress, with no work between, before it sleeps; 0: never */
	uint64_t idle_sleep; /* longest such sleep, microseconds */
	uint64_t threads;    /* 1: several threads may use the context at the same time */
	uint64_t calibrate;  /* 1: thresholds left alone come from the machine's calibration file */
	uint64_t network;    /* enum pf_network */
	uint64_t auth;       /* enum pf_auth */
	uint64_t net_fault;  /* enum pf_net_fault */
	uint64_t backup_ring; /* bytes kept for blocks that wait for their pages, for all peers */
	uint64_t socket_buffer; /* bytes that the system keeps of packets, for each address and direction */
	uint64_t peer_timeout; /* seconds of silence after which a peer on another host is dead */
	/* Texts, NULL for none; pf_open does not keep them. */
	const char *if_include; /* interfaces to use: names and networks, separated by commas */
	const char *if_exclude; /* without if_include: those not to use */
} pf_options;

typedef struct pf_option_info {
	const char *name; /* "eager_limit"; the environment variable is PF_EAGER_LIMIT */
	const char *help; /* one sentence */
	size_t offset;    /* of the field in pf_options */
	uint64_t minimum, maximum;
	int level;                /* MPI_T verbosity level 1..9: who should care */
	const char *const *names; /* not NULL: names of the values from minimum on, ended by NULL */
} pf_option_info;

/* The options that are numbers, ended by an entry whose name is NULL. Static, thread safe. */
const pf_option_info *pf_option_table(void);

typedef struct pf_text_info {
	const char *name;
	const char *help;
	size_t offset; /* of the const char * in pf_options */
	int level;
} pf_text_info;

/* The options that are texts, likewise. */
const pf_text_info *pf_text_table(void);

/* A good idle_polls where processes share a core; the default, 0, is for those that own theirs. */
#define PF_IDLE_POLLS_SHARED_CORE 1000

/*
 * Fill *options: built-in defaults, then the machine's calibration (see
 * pf_info(1)), then PF_* environment variables, which accept the suffixes
 * K, M and G. Returns PF_ERR_ARGUMENT for a variable that cannot be parsed or
 * is out of range, and then *culprit, if culprit is not NULL, is its option.
 * A variable in error leaves its option as it was.
 */
int pf_options_init(pf_options *options, const pf_option_info **culprit);

/*
 * Why pf_open(options, ...) returns PF_ERR_ARGUMENT: name, value and permitted
 * values of the first invalid option, or of the first invalid PF_* variable if
 * options is NULL. Returns the length as snprintf does; 0 if all are valid.
 */
int pf_options_error(const pf_options *options, char *buffer, size_t size);

/*
 * Open a context: one per process is the rule. *options is copied; NULL stands
 * for what pf_options_init gives, and PF_ERR_ARGUMENT follows if that fails.
 * Costs one thread (asleep unless a peer connects, dies, or asks for a page),
 * one socket and two shared pages, of which pf_info --job reads one to show
 * this process's statistics.
 */
int pf_open(const pf_options *options, pf_context **context);

/*
 * Close a context and all peers. Transfers in flight are abandoned without
 * callbacks. No other thread may be inside libpf with this context.
 */
void pf_close(pf_context *context);

/*
 * Join the protection domain of a job, whose processes all know the secret and
 * nobody else does: length bytes, of any kind. To be called before the address
 * is given away. Only processes of one domain reach each other over
 * /dev/exanest. Without this call a context joins that of the first peer it
 * meets, which is enough for two; those that the device does not reach use
 * the host's transport. Once in a context's life; later calls do nothing.
 */
void pf_join(pf_context *context, const void *secret, size_t length);

typedef struct pf_attributes {
	size_t send_max;       /* longest header + payload that pf_send takes */
	size_t eager_limit;    /* pf_options.eager_limit in force, at most send_max */
	size_t address_length; /* of pf_address */
} pf_attributes;

void pf_query(const pf_context *context, pf_attributes *attributes);

/*
 * The context's address: opaque bytes to hand to other processes out of band
 * (a modex, a file, a pipe). It holds the key that admits whoever knows it to
 * this process's memory: treat it as a secret of the job.
 */
#define PF_ADDRESS_MAX 256
int pf_address(const pf_context *context, void *buffer, size_t *length);

/*
 * PF_OK when some transport reaches the owner of this address from here,
 * PF_ERR_UNREACHABLE when none does (another host, and no network in common),
 * PF_ERR_ARGUMENT when the bytes are no address. *why, if not
 * NULL, gets a static text that explains.
 */
int pf_reachable(const pf_context *context, const void *address, size_t length, const char **why);

/*
 * Make a peer from its address (the context's own is allowed). Nothing is
 * allocated for it or sent to it before first use. user is returned by
 * pf_peer_user. Opening the same address twice returns the same peer, counted.
 */
int pf_peer_open(pf_context *context, const void *address, size_t length, void *user,
		 pf_peer **peer);
/* Drop one count; transfers in flight finish first, messages still arrive. */
void pf_peer_close(pf_peer *peer);
/* The user pointer; NULL for a peer that only ever called us. */
void *pf_peer_user(const pf_peer *peer);
/*
 * Which way bytes go to this peer and why, as a sentence, e.g. "single copy
 * from both ends" or "through the ring: process_vm_readv is not permitted".
 * Static text, thread safe, valid for ever; changes when first use finds out.
 */
const char *pf_peer_path(const pf_peer *peer);

/* Which address space an address belongs to. */
enum pf_side { PF_SIDE_NONE, PF_SIDE_LOCAL, PF_SIDE_REMOTE };

typedef struct pf_completion {
	int status;        /* PF_OK or PF_ERR_* */
	enum pf_side side; /* PF_ERR_FAULT: whose memory it was, */
	uint64_t address;  /* and the first address that could not be reached */
	uint64_t value;    /* fetching atomics: the value before the operation */
	void *arg;
} pf_completion;

/* *completion lives only during the call. */
typedef void (*pf_complete_fn)(pf_context *context, const pf_completion *completion);

/*
 * Move length bytes from local to the peer's address remote (put) or back
 * (get). Both buffers belong to the transfer until it completes, which for a
 * put means: the bytes are in the peer's memory. Returns PF_OK, PF_DONE, or
 * an error (never PF_ERR_AGAIN), after which nothing was started and complete
 * is not called. After a PF_ERR_FAULT completion the destination's contents are undefined, and
 * nothing outside it was touched. complete may be NULL if nobody cares.
 */
int pf_put(pf_peer *peer, const void *local, uint64_t remote, size_t length,
	   pf_complete_fn complete, void *arg);
int pf_get(pf_peer *peer, void *local, uint64_t remote, size_t length, pf_complete_fn complete,
	   void *arg);

/*
 * Make [address, address + length) ready for transfers as pf_options.mode asks.
 * Only for comparison with networks that need it: transfers never do. In
 * PF_MODE_FAULT, the default, it does nothing and returns PF_DONE with
 * *registration NULL. write: the transfers write there. Returns PF_OK, PF_DONE,
 * PF_ERR_FAULT for memory that is not there, PF_ERR_MEMORY where the limit of
 * locked memory (ulimit -l) is reached. Thread safe.
 */
typedef struct pf_registration pf_registration;
int pf_register(pf_context *context, void *address, size_t length, int write,
		pf_registration **registration);
/* Undo it; NULL is allowed. */
void pf_deregister(pf_context *context, pf_registration *registration);

/*
 * A user-space pager: the pages of [address, address + length), which must be
 * page aligned, private and anonymous, come from supply whenever they are
 * absent: now where they are not there yet, and after each pf_pager_evict or
 * MADV_DONTNEED, which are legal at any time. supply fills length bytes at page
 * with what belongs at address, and returns PF_OK, or any PF_ERR_* when it
 * cannot: a transfer then fails with PF_ERR_FAULT.
 *
 * A transfer of this process or of a peer that meets such a page is parked; the
 * fault is forwarded straight to supply, on the thread that found it while
 * supply is quick, on a resolver thread once it was seen to take long. A
 * processor's fault in the range (a load or store of any thread) is served by
 * the service thread. So supply may be called on several threads at a time,
 * and must neither touch the range nor call libpf.
 *
 * Uses userfaultfd in the way that needs no privilege, in which system calls
 * (read(2) into the range, say) do not wait for absent pages but fail with
 * EFAULT: evicted pages have to be touched before they are handed to one.
 *
 * pf_pager_register returns PF_ERR_ARGUMENT for a range that is no such
 * memory, PF_ERR_SYSTEM where there is no userfaultfd. Unregister before the
 * memory is unmapped and before pf_close; pages present then stay as they are.
 */
typedef struct pf_pager pf_pager;
typedef int (*pf_supply_fn)(pf_context *context, uint64_t address, void *page, size_t length,
			    void *arg);
int pf_pager_register(pf_context *context, void *address, size_t length, pf_supply_fn supply,
		      void *arg, pf_pager **pager);
/* Drop pages; what is in them is lost. Page aligned, within the range. Thread safe. */
int pf_pager_evict(pf_pager *pager, void *address, size_t length);
void pf_pager_unregister(pf_pager *pager);

/*
 * Send an active message: header, then payload, arrive as one contiguous
 * piece at the peer's receive callback, in the order sent, exactly once. The
 * buffers are free again on return. PF_DONE: sent; PF_ERR_AGAIN: the ring is
 * full, nothing was sent. header and payload may be NULL where their length
 * is 0.
 */
int pf_send(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length);

/*
 * As pf_send, but pack writes the payload straight into the ring: called at
 * most once, before pf_send_pack returns, and must write exactly length bytes
 * at destination. It must not call libpf.
 */
typedef void (*pf_pack_fn)(void *destination, size_t length, void *arg);
int pf_send_pack(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		 size_t length, pf_pack_fn pack, void *arg);

/*
 * Called for each message that arrives. data lives only during the call and
 * is aligned to 8 bytes. Set it before the address is given away.
 */
typedef void (*pf_receive_fn)(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			      size_t length, void *arg);
void pf_set_receive(pf_context *context, pf_receive_fn receive, void *arg);

/*
 * Called once for a peer that died or refused us, after every transfer that
 * was waiting for it has completed with the same status.
 */
typedef void (*pf_error_fn)(pf_context *context, pf_peer *peer, int status, const char *text,
			    void *arg);
void pf_set_error(pf_context *context, pf_error_fn error, void *arg);

enum pf_atomic_op { PF_ADD, PF_AND, PF_OR, PF_XOR, PF_SWAP, PF_COMPARE_SWAP };

/*
 * One atomic operation on the peer's naturally aligned 32- or 64-bit integer
 * (width 4 or 8), atomic towards every processor of that host. The value
 * before it is in pf_completion.value. operand is added, combined or stored;
 * PF_COMPARE_SWAP stores operand if the value equals compare. fetch = 0 says
 * that the old value is not wanted. The peer executes it in its pf_progress,
 * unless /dev/exanest does.
 */
int pf_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, int fetch, uint64_t remote,
	      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);

/*
 * Call pf_progress until every transfer and atomic posted to peer (to any
 * peer, if NULL) before the call has completed, which for as long as a peer is
 * alive but does not poll may be never. Not from a callback: PF_ERR_ARGUMENT.
 */
int pf_flush(pf_context *context, pf_peer *peer);

/* Move what can be moved; returns how many things happened, 0 if none. Never waits for a page. */
int pf_progress(pf_context *context);

/* Statistics: monotonic counters; reading them is thread safe at any time. */
enum pf_stat {
	PF_STAT_SENDS, /* messages sent */
	PF_STAT_SEND_BYTES,
	PF_STAT_RECEIVES,
	PF_STAT_RECEIVE_BYTES,
	PF_STAT_PUTS, /* transfers completed, by operation */
	PF_STAT_GETS,
	PF_STAT_ATOMICS,
	PF_STAT_SINGLE_COPY_BYTES, /* moved by this process for its own transfers, one copy */
	PF_STAT_SHARED_BYTES, /* moved by this process for a peer's transfer, from the other end */
	PF_STAT_STREAM_BYTES, /* of transfers that went through the ring */
	PF_STAT_PREFAULT_BYTES, /* of buffers made ready by pf_register, by mode */
	PF_STAT_PIN_BYTES,
	PF_STAT_PIN_CACHE_BYTES,
	PF_STAT_DEVICE_BYTES,  /* of transfers moved by /dev/exanest */
	PF_STAT_LOCAL_FAULTS,  /* blocks that met a fault here */
	PF_STAT_REMOTE_FAULTS, /* ... or in the peer */
	/* Those and, of minor faults, the runs that the kernel settled in place, by kind: */
	PF_STAT_LOCAL_MINOR,      /* a page never touched: memory, no waiting */
	PF_STAT_LOCAL_MAJOR,      /* a page in swap or in a file */
	PF_STAT_LOCAL_PAGER,      /* a page that a pager had to supply */
	PF_STAT_LOCAL_PERMISSION, /* no such mapping, or not permitted: the transfer failed */
	PF_STAT_REMOTE_MINOR,
	PF_STAT_REMOTE_MAJOR,
	PF_STAT_REMOTE_PAGER,
	PF_STAT_REMOTE_PERMISSION,
	PF_STAT_RETRANSMITS,  /* blocks sent again after a fault was resolved */
	PF_STAT_FAULT_ERRORS, /* transfers that ended with PF_ERR_FAULT */
	PF_STAT_RING_FULL,    /* sends turned away with PF_ERR_AGAIN */
	PF_STAT_COLLAPSED,    /* 2 MiB ranges of hot buffers made huge pages */
	PF_STAT_SLEEPS,       /* times pf_progress slept for want of work */
	PF_STAT_PEERS,        /* peers connected to */
	PF_STAT_NET_SENT,     /* packets sent to other hosts */
	PF_STAT_NET_RECEIVED, /* ... and received */
	PF_STAT_NET_BYTES,    /* bytes of the packets sent */
	PF_STAT_NET_LOST,     /* packets of ours that got lost, and were made up for */
	PF_STAT_NET_DROPPED,  /* packets for us that the sockets had no room for */
	PF_STAT_NET_NACKS,    /* blocks from other hosts that waited for a page here */
	PF_STAT_NET_REFUSED,  /* packets that were forged, replayed or no packets of ours */
	PF_STAT_COUNT
};

typedef struct pf_stat_info {
	const char *name; /* "single_copy_bytes" */
	const char *help;
} pf_stat_info;

const pf_stat_info *pf_stat_table(void); /* PF_STAT_COUNT entries, static */
uint64_t pf_stat(const pf_context *context, enum pf_stat stat);

/*
 * How long faults took from their detection to their block's being ready
 * again: faults that took less than 2^(bucket + 8) ns and not less than half of
 * that; the first bucket also counts everything shorter, the last everything
 * longer. 0 for a bucket that does not exist. Thread safe at any time.
 */
#define PF_RESOLVE_BUCKETS 24
uint64_t pf_stat_resolve_time(const pf_context *context, unsigned bucket);

/* What this machine offers, for pf_info(1): static names, texts filled in. Returns how many. */
typedef struct pf_capability {
	const char *name;
	int available;
	char detail[192];
} pf_capability;
int pf_capabilities(pf_capability *list, int most);

/*
 * Path of the calibration file that pf_options_init reads for this machine
 * (it need not exist). Returns the length as snprintf does.
 */
int pf_calibration_path(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
