/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/exanest: put, get and atomics between address spaces without pinning.
 *
 * A file descriptor is a context. It belongs to the address space that opened
 * it: a child that inherits it over fork, a program that inherits it over
 * exec, or a process that is sent it gets -EPERM from every call.
 *
 *	open -> EXANEST_IOC_QUERY -> EXANEST_IOC_JOIN -> EXANEST_IOC_RINGS -> mmap
 *
 * Every structure of an ioctl starts with its size, as the caller knows it.
 * The kernel accepts a shorter one (what is absent is 0) and a longer one
 * whose unknown tail is 0 (else -E2BIG), and writes back the size it knows.
 * Structures hold only fixed-width, naturally aligned fields and no implicit
 * padding, so they are the same for 32- and 64-bit callers. Fields called
 * reserved must be 0, or the call fails with -EINVAL.
 *
 * driver/README.md says how the rings are driven and what each error means.
 */
#ifndef _UAPI_EXANEST_H
#define _UAPI_EXANEST_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define EXANEST_ABI_VERSION 1
#define EXANEST_DEVICE "/dev/exanest"

/* exanest_query.features */
#define EXANEST_FEATURE_ATOMICS (1ULL << 0)
#define EXANEST_FEATURE_EVENTFD (1ULL << 1) /* the eventfds of exanest_rings are honoured */
#define EXANEST_FEATURE_PAGER (1ULL << 2)   /* faults in EXANEST_IOC_PAGER ranges are handed out */
#define EXANEST_FEATURE_POLL (1ULL << 3)    /* exanest_rings.poll_us is honoured */

/* What the engine is and can do. All out, but size. */
struct exanest_query {
	__u32 size;
	__u32 abi_version;  /* EXANEST_ABI_VERSION of the module */
	__u64 features;     /* EXANEST_FEATURE_* */
	__u32 block_size;   /* bytes: unit of faults and retransmission */
	__u32 ring_entries; /* most entries of one ring */
	__u64 transfer_max; /* bytes: longest single transfer */
	char engine[32];    /* name, ended by 0 */
	__u32 node;         /* number of this node on the link of the engine; 0: it has none */
	__u32 reserved;
};

/* How faults in a context's memory are resolved: it is its owner who says. */
enum exanest_policy {
	EXANEST_POLICY_DEFAULT = 0, /* as the module's parameter says */
	EXANEST_POLICY_TOUCH = 1,   /* the block that met the fault */
	EXANEST_POLICY_AHEAD = 2,   /* and more of its transfer, twice as much each time */
	EXANEST_POLICY_HUGE = 3,    /* all that the transfer covers of a 2 MiB range */
};

#define EXANEST_SECRET_BYTES 32
/* The upper bits of an address are the number of its node; 0: its engine has no link. */
#define EXANEST_ADDRESS_NODE_SHIFT 48

/*
 * Join the protection domain of a job, once in a context's life (-EALREADY).
 * Only contexts that gave the same secret, opened by the same user in the same
 * user namespace, reach one another. On other nodes, to which the engine has a link,
 * those of the same secret and user id are reached, if both are in the initial user
 * namespace of their node. A secret of zeros is -EINVAL. After
 * EXANEST_IOC_LEAVE it, and EXANEST_IOC_RINGS, fail with -ESHUTDOWN.
 */
struct exanest_join {
	__u32 size;
	__u32 policy; /* enum exanest_policy */
	__u8 secret[EXANEST_SECRET_BYTES];
	__u64 address; /* out: this context's engine address, never used again after close */
};

/*
 * Make the rings, once in a context's life (-EALREADY), after
 * EXANEST_IOC_JOIN (-ENOTCONN). The kernel clamps
 * nothing: a count that is not a power of two, or is above
 * exanest_query.ring_entries, is -EINVAL. The caller maps map_bytes of the
 * descriptor, shared, at offset 0; the offsets lead to the rings' heads and
 * entries in that mapping. A child does not inherit the mapping, and no
 * transfer reaches it.
 */
struct exanest_rings {
	__u32 size;
	__u32 submissions; /* entries of each ring */
	__u32 completions;
	__u32 faults;             /* 0: no fault events wanted */
	__s32 completion_eventfd; /* signalled after completions; -1: none */
	__s32 fault_eventfd;      /* signalled after fault events; -1: none */
	__u32 poll_us; /* the engine watches the rings this long after work before it sleeps */
	__u32 reserved;
	__u64 map_bytes; /* out, as are the offsets */
	__u64 submission_head, submission_entries;
	__u64 completion_head, completion_entries;
	__u64 fault_head, fault_entries;
};

/*
 * Free-running counters: an entry's slot is counter & (entries - 1). producer
 * and consumer lie on cache lines of their own. The kernel reads the caller's
 * counter once for each use and never reads back what it wrote itself.
 */
struct exanest_ring_head {
	__u32 producer;
	__u32 reserved0[15];
	__u32 consumer;
	__u32 flags; /* EXANEST_RING_*, written by the kernel */
	__u32 reserved1[14];
};

/* Of the submission ring: the engine sleeps, EXANEST_IOC_DOORBELL wakes it. */
#define EXANEST_RING_NEED_DOORBELL (1U << 0)
/* Of the fault ring: more faults wait than it holds; they come as it is emptied and answered. */
#define EXANEST_RING_OVERFLOW (1U << 1)
/* Of the submission ring: a counter of the caller's was nonsense; nothing is taken any more. */
#define EXANEST_RING_BROKEN (1U << 2)

enum exanest_op {
	EXANEST_OP_NOP = 0,
	EXANEST_OP_PUT = 1,
	EXANEST_OP_GET = 2,
	EXANEST_OP_ATOMIC = 3,
	EXANEST_OP_FENCE = 4, /* completes after everything submitted before it to that peer */
};

enum exanest_atomic {
	EXANEST_ATOMIC_ADD = 0,
	EXANEST_ATOMIC_AND = 1,
	EXANEST_ATOMIC_OR = 2,
	EXANEST_ATOMIC_XOR = 3,
	EXANEST_ATOMIC_SWAP = 4,
	EXANEST_ATOMIC_COMPARE_SWAP = 5, /* operand is stored if the value equals compare */
};

/* Fields that op does not use must be 0. */
struct exanest_submission {
	__u64 cookie; /* comes back in the completion */
	__u64 peer;   /* exanest_join.address of the peer, or of the caller itself; NOP: 0 */
	__u64 local;
	__u64 remote;
	__u64 length; /* bytes; atomics: 4 or 8, and remote is a multiple of it */
	__u64 operand;
	__u64 compare;
	__u16 op;     /* enum exanest_op */
	__u16 atomic; /* enum exanest_atomic */
	__u32 reserved;
};

enum exanest_side {
	EXANEST_SIDE_NONE = 0,
	EXANEST_SIDE_LOCAL = 1,
	EXANEST_SIDE_REMOTE = 2,
};

struct exanest_completion {
	__u64 cookie;
	__u64 value;         /* atomics: the value before the operation */
	__u64 fault_address; /* where a fault ended it: any, if several could not be had */
	__s32 status;        /* 0 or a negative errno; see driver/README.md */
	__u32 fault_side;    /* whose address it is, enum exanest_side; 0: no fault ended it */
};

/*
 * A fault in a range whose pages the process itself provides. They have to
 * appear whole (UFFDIO_COPY, mremap(2)), since the engine takes a page for what
 * it is as soon as it is there, and may be there before the event is read, for
 * another block.
 */
struct exanest_fault {
	__u64 address; /* of the first absent page */
	__u64 length;  /* bytes absent from there on that the parked block needs, in whole pages */
	__u64 ticket;  /* for EXANEST_IOC_RESOLVED */
	__u32 write;   /* 1: the engine is going to write */
	__u32 reserved;
};

/*
 * Take over (enable 1), or give back (0), the faults of a page-aligned range of
 * the caller's own memory. It is given back as it was taken over, else -ENOENT.
 * Faults that are out when a range is given back are resolved by the kernel.
 * -ENXIO: no fault ring; -EEXIST: the range overlaps another; -ENOSPC: the
 * context has 1024 of them.
 */
struct exanest_pager {
	__u32 size;
	__u32 enable;
	__u64 address;
	__u64 length;
};

/*
 * The answer to one exanest_fault, -ENOENT if there is none of that ticket. A
 * block without an answer ends with -ETIMEDOUT.
 */
struct exanest_resolved {
	__u32 size;
	__s32 status; /* 0: the pages are there; negative: the transfer ends with -EFAULT */
	__u64 ticket;
};

/*
 * Counters of this context since it was opened. All out, but size. Translations
 * and faults of a context are those of its own memory, whichever context
 * submitted the transfer; the rest counts what it submitted. Invalidations are
 * those of the process, which may have several contexts.
 */
struct exanest_statistics {
	__u32 size;
	__u32 reserved;
	__u64 transfers;          /* completed, whatever the status */
	__u64 bytes;              /* moved */
	__u64 blocks;             /* moved */
	__u64 retransmits;        /* blocks sent again after a miss or fault was settled */
	__u64 fault_errors;       /* transfers ended with -EFAULT */
	__u64 translation_misses; /* blocks whose pages were there, but not their translation */
	__u64 translation_fills;  /* pages looked up */
	__u64 invalidations;      /* times the kernel took translations away */
	__u64 faults;             /* blocks that met an absent page */
	__u64 faults_pager;       /* of those, handed to the process */
	__u64 faults_failed;      /* of all, those that could not be resolved */
	__u64 resolve_ns; /* from a fault's detection to its block's being ready, summed up */
};

/*
 * The numbers hold no sizes: the structures do, and grow.
 *
 * EXANEST_IOC_LEAVE ends the context, as closing its last descriptor and
 * unmapping its rings does, though a child of fork may still have them: when it
 * returns, nothing of the caller's memory is read or written any more.
 */
#define EXANEST_IOC_MAGIC 0xEA
#define EXANEST_IOC_QUERY _IO(EXANEST_IOC_MAGIC, 0x00)      /* struct exanest_query */
#define EXANEST_IOC_JOIN _IO(EXANEST_IOC_MAGIC, 0x01)       /* struct exanest_join */
#define EXANEST_IOC_RINGS _IO(EXANEST_IOC_MAGIC, 0x02)      /* struct exanest_rings */
#define EXANEST_IOC_DOORBELL _IO(EXANEST_IOC_MAGIC, 0x03)   /* no argument */
#define EXANEST_IOC_PAGER _IO(EXANEST_IOC_MAGIC, 0x04)      /* struct exanest_pager */
#define EXANEST_IOC_RESOLVED _IO(EXANEST_IOC_MAGIC, 0x05)   /* struct exanest_resolved */
#define EXANEST_IOC_STATISTICS _IO(EXANEST_IOC_MAGIC, 0x06) /* struct exanest_statistics */
#define EXANEST_IOC_LEAVE _IO(EXANEST_IOC_MAGIC, 0x07)      /* no argument */

#endif
