/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engines move blocks. The driver gives an engine descriptors; translations,
 * faults, retransmission and fairness are the driver's. A backend implements
 * struct exanest_engine_operations, registers, and calls exanest_engine_complete
 * for each descriptor that it accepted. engine_software.c is one of them.
 *
 * Addresses. A descriptor names spaces (translation.h) and virtual addresses in
 * them. A backend may look translations up while it moves, as the software engine
 * does, under the locks that translation.h describes. Or its hardware has tables
 * of its own, which map fills and invalidate empties. A backend with such tables
 * calls exanest_translation_mark for what its hardware read and wrote before
 * invalidate returns for those pages.
 *
 * Who calls what. submit, kick and reset are called by one worker of the driver,
 * never two at a time. (A backend with threads of its own has move and wake
 * instead.) map, invalidate and quiesce may come from any
 * thread at any time, from space_attach on until space_detach returned.
 * exanest_engine_complete, _room and _fail may be called from threads, threaded
 * interrupt handlers and softirq-free workers, without locks that an operation
 * takes; complete may be called inside submit.
 *
 * Trust. What an engine reports is checked: a completion that cannot be (a slot
 * that does not exist, more bytes than asked for, a side that the operation does
 * not have) resets it. A completion of a descriptor that was completed before,
 * or was in flight before a reset, is counted and dropped.
 *
 * Failure. A block whose completion does not come within block_timeout_ms (a block to
 * another node, which may wait for a page there: only after quiesce), an engine that does
 * not answer, or one that says so itself (exanest_engine_fail), causes a reset. Then the
 * block that was late, and atomics, which may have been executed, end with -EIO;
 * other blocks are sent again. An engine that has to be reset RESETS_MAX times
 * without a completion in between, or cannot be reset, is dead: all blocks of its
 * contexts end with -EIO from then on, as after exanest_engine_unregister.
 */
#ifndef EXANEST_ENGINE_H
#define EXANEST_ENGINE_H

#include <linux/list.h>
#include <linux/types.h>

#include "uapi/exanest.h"

#define EXANEST_ENGINE_DEPTH_MAX 32768U
#define EXANEST_ENGINE_COUNTERS_MAX 32U

struct exanest_block;
struct exanest_engine;
struct exanest_space;
struct exanest_translation;

struct exanest_limits {
	u32 depth; /* descriptors in flight, 1 to EXANEST_ENGINE_DEPTH_MAX */
	u32 run;   /* bytes of one descriptor: a multiple of EXANEST_BLOCK_SIZE */
	u32 node;  /* number of this node on the engine's link; 0: it has none */
};

/* The memory of a context, as transfers name it. */
struct exanest_export {
	struct exanest_space *space;
	u64 key[2];  /* what other nodes prove their right with: that of the domain */
	u64 address; /* set by exanest_engine_export; not used again before the driver is reloaded */
	void *private; /* of the backend */
};

/* A page fault that a block of another node met in the memory of an export. */
struct exanest_remote_fault {
	u64 fault; /* of the backend, as is: */
	unsigned int epoch;
	u64 node, request; /* which block it is: the same for all faults of one block */
	u64 start, end;    /* addresses of the block */
	u64 last;          /* up to which its transfer goes */
	u64 address;       /* of the fault */
	bool write;
};

struct exanest_descriptor {
	u32 tag; /* of the completion: slot (below depth) in the lower 16 bits, generation above */
	u16 op;  /* EXANEST_OP_PUT: local to remote; _GET: remote to local; _ATOMIC: on remote */
	u16 atomic; /* enum exanest_atomic */
	u32 length; /* bytes, at least 1; atomics: 4 or 8 */
	struct exanest_export *local;
	struct exanest_export *remote;     /* NULL: on another node */
	u64 peer;                          /* address of remote */
	u64 local_address, remote_address; /* no sum with length wraps around */
	u64 operand, compare;
};

struct exanest_result {
	u32 tag;
	/*
	 * 0: all was moved. -EFAULT: the byte behind those moved and skipped has no valid
	 * translation on side, or none for writing. -ECANCELED: not executed, or not to its end, because
	 * of quiesce. -EIO: the engine cannot move it. If remote is on another node, -EFAULT on that side
	 * stays, and so do -EBUSY, -ENOMEM and -ETIMEDOUT, of the byte that -EFAULT would be of;
	 * -EHOSTUNREACH: there is no such context, or no answer; -ECONNRESET: no answer, and whether an
	 * atomic was executed is not known.
	 */
	s32 status;
	u32 moved; /* bytes from the beginning on; atomics: 0 unless status is 0 */
	u32 side;  /* with an error of a byte: EXANEST_SIDE_LOCAL or _REMOTE */
	/*
	 * With such an error, from an engine that does not move bytes in their order: how far behind
	 * those moved the byte without a translation is. What lies between is moved again.
	 */
	u32 skipped;
	u64 value; /* atomics: the one before */
};

/* All are optional but one of submit and move. */
struct exanest_engine_operations {
	const char *name;
	u64 features; /* EXANEST_FEATURE_*, of those that depend on the engine */

	/* Space: one for each process that has contexts of this engine. May sleep. */
	int (*space_attach)(struct exanest_engine *engine, struct exanest_space *space);
	/* Nothing of it is in flight, all of it was invalidated. May sleep. */
	void (*space_detach)(struct exanest_engine *engine, struct exanest_space *space);
	/*
	 * A context of an attached space has a domain: set address. retract: nothing is in flight
	 * to or from it on this node, and no other node accesses it any more when this returns; for an
	 * export that was retracted before, or never made, it does nothing. May sleep. Without export,
	 * addresses are numbers, and only contexts of this node are reached.
	 */
	int (*export)(struct exanest_engine *engine, struct exanest_export *export);
	void (*retract)(struct exanest_engine *engine, struct exanest_export *export);
	/*
	 * The end of a fault that was reported with exanest_engine_fault: its page is there (0), or the
	 * block of the other node ends with -EFAULT, -EBUSY, -ENOMEM or -ETIMEDOUT at address. May sleep.
	 */
	void (*settle)(struct exanest_engine *engine, const struct exanest_remote_fault *fault,
		       int status, u64 address);
	/*
	 * Pages [first, first + count) of a span have valid entries now. Its lock is held
	 * for writing. Must not sleep. An error takes the entries back.
	 */
	int (*map)(struct exanest_engine *engine, struct exanest_translation *translation,
		   unsigned int first, unsigned int count);
	/*
	 * Forget translations of [start, end), and return after the last access to their
	 * pages. If may_block is false and it would have to sleep: return false without
	 * waiting. It is called again for the range before the pages are taken away. If
	 * the engine does not answer, the backend cuts it off memory, returns, and calls
	 * exanest_engine_fail.
	 */
	bool (*invalidate)(struct exanest_engine *engine, struct exanest_space *space,
			   unsigned long start, unsigned long end, bool may_block);

	/* Returns how many were accepted, from the first on. If not all: see _room. */
	unsigned int (*submit)(struct exanest_engine *engine,
			       const struct exanest_descriptor *descriptors, unsigned int count);
	/* Whether the engine still does anything: asked while only other nodes are waited for. May sleep. */
	bool (*answers)(struct exanest_engine *engine);
	/* What was submitted since the last call may start: the doorbell. */
	void (*kick)(struct exanest_engine *engine);
	/*
	 * A context ends. Complete soon what is in flight to or from it, e.g. with -ECANCELED;
	 * need not wait for that. May be called more than once. May sleep.
	 */
	void (*quiesce)(struct exanest_engine *engine, struct exanest_export *export);
	/*
	 * Stop everything. When it returns no memory is accessed any more, whether or not
	 * it succeeded, and translations are as before or empty. 0: ready again.
	 * May sleep. Also called by exanest_engine_unregister. Required with submit.
	 */
	int (*reset)(struct exanest_engine *engine);
	/*
	 * What the engine itself counts since it was reset: names, and where they end NULL; count stores
	 * as many values, or returns false: they cannot be had now. May sleep.
	 */
	const char *const *counters;
	bool (*count)(struct exanest_engine *engine, u64 *values);

	/*
	 * For engines that are processors, both or none of them. move, instead of submit: on
	 * the calling thread; tags are not used, and nothing is in flight afterwards. wake:
	 * have a thread of the backend call exanest_engine_serve until it returns false.
	 * Such an engine unregisters when it has no context any more.
	 */
	void (*move)(const struct exanest_descriptor *descriptor, struct exanest_result *result);
	void (*wake)(struct exanest_engine *engine);
};

/*
 * For backends.
 */
/* Contexts that are opened from now on use it. ERR_PTR. */
struct exanest_engine *exanest_engine_register(const struct exanest_engine_operations *operations,
					       const struct exanest_limits *limits, void *private);
/*
 * The engine is gone, as after surprise removal, or is about to go. When it returns no
 * operation is called any more; contexts that use it live on, and get -EIO. No upcall
 * may follow. Sleeps.
 */
void exanest_engine_unregister(struct exanest_engine *engine);
void *exanest_engine_private(const struct exanest_engine *engine);

void exanest_engine_complete(struct exanest_engine *engine, const struct exanest_result *result);
/*
 * export is not retracted before this returns. settle follows, or is called inside. May sleep, but
 * reclaims no memory.
 */
void exanest_engine_fault(struct exanest_engine *engine, struct exanest_export *export,
			  const struct exanest_remote_fault *fault);
/* After submit did not accept all: there is room. A completion says the same. */
void exanest_engine_room(struct exanest_engine *engine);
/*
 * The engine was off, as in a suspend, and may be started: reset follows, once workqueues are not frozen any
 * more. Blocks that it had are submitted again; atomics end with -EIO. Any context.
 */
void exanest_engine_resumed(struct exanest_engine *engine);
/* It has to be reset. reason: static text, for the log. Any context, interrupts too. */
void exanest_engine_fail(struct exanest_engine *engine, const char *reason);

/* For backends with threads. Give the first context that is ready its turn. false: none was. */
bool exanest_engine_serve(struct exanest_engine *engine);
/* No context is ready. */
bool exanest_engine_idle(const struct exanest_engine *engine);

/*
 * For the layers above.
 */
/* What a context is to an engine: a place in the queue of those that have something to do. */
struct exanest_turn {
	struct list_head link;
	bool queued;
	bool served;
	bool again; /* made ready while it was served */
};

/* What engines are given at the start, and call. */
struct exanest_engine_client {
	/* Count a turn, while it is queued or served. */
	void (*get)(struct exanest_turn *turn);
	void (*put)(struct exanest_turn *turn);
	/* Submit what there is to submit. One at a time for a turn. Returns whether to call again. */
	bool (*serve)(struct exanest_turn *turn);
	/* A block is the client's again. tag is not set. On the thread that submitted, or another. */
	void (*complete)(struct exanest_block *block, const struct exanest_result *result);
	/* The engine did not accept it: it is the next one. Inside exanest_engine_submit. */
	void (*take_back)(struct exanest_block *block);
	/* Resolve a page fault of another node, and call exanest_engine_settle. */
	void (*fault)(struct exanest_export *export, const struct exanest_remote_fault *fault);
};

struct exanest_engine_state {
	const char *name;
	u32 depth, in_flight;
	u64 resets, dropped; /* completions that were late or twice */
	bool dead;
	const char *const *counters; /* names, NULL at the end; NULL: there are none */
	u64 values[EXANEST_ENGINE_COUNTERS_MAX];
};

extern const struct exanest_space_operations exanest_engine_spaces;

void exanest_engines_start(const struct exanest_engine_client *client);

/* The one that new contexts use, counted, or NULL. */
struct exanest_engine *exanest_engine_get(void);
void exanest_engine_put(struct exanest_engine *engine);

/* Unregistered or given up: exanest_engine_get finds it no more. */
bool exanest_engine_is_dead(const struct exanest_engine *engine);
const char *exanest_engine_name(const struct exanest_engine *engine);
u64 exanest_engine_features(const struct exanest_engine *engine);
const struct exanest_limits *exanest_engine_limits(const struct exanest_engine *engine);
void exanest_engines_call(void (*call)(const struct exanest_engine_state *state, void *argument),
			  void *argument);

/* A context has something to do: it will have a turn. Any context but interrupts. */
void exanest_engine_ready(struct exanest_engine *engine, struct exanest_turn *turn);

/* Inside client.serve: descriptors that can be submitted now; far: those to other nodes. */
unsigned int exanest_engine_free_slots(const struct exanest_engine *engine);
/* Inside client.serve. Returns how many were accepted; the tags are set here. */
unsigned int exanest_engine_submit(struct exanest_engine *engine,
				   struct exanest_descriptor *descriptors,
				   struct exanest_block *const *blocks, unsigned int count);
/* See export, retract and settle. */
int exanest_engine_export(struct exanest_engine *engine, struct exanest_export *export);
void exanest_engine_retract(struct exanest_engine *engine, struct exanest_export *export);
void exanest_engine_settle(struct exanest_engine *engine, const struct exanest_remote_fault *fault,
			   int status, u64 address);
/* Is it an address of another node, to which the engine has a link? */
bool exanest_engine_reaches(const struct exanest_engine *engine, u64 address);
/* See quiesce. */
void exanest_engine_quiesce(struct exanest_engine *engine, struct exanest_export *export);

/* engine_software.c: the engine that is always there. */
int exanest_software_start(void);
void exanest_software_stop(void);
/* pci.c: engines in hardware, which come and go with their devices. */
int exanest_registers_start(void);
void exanest_registers_stop(void);

#endif
