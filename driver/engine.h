/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An engine moves blocks. The core gives it contexts in turn and blocks of
 * theirs, and keeps translations, faults and retransmission to itself; so an
 * engine is no more than this table. The first one is software; one that
 * drives registers fills in the same, moves in the background, and has its
 * interrupt thread do what a software thread does.
 */
#ifndef EXANEST_ENGINE_H
#define EXANEST_ENGINE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct exanest_block;
struct exanest_context;
struct exanest_engine;

struct exanest_engine_operations {
	const char *name;
	u64 features; /* EXANEST_FEATURE_*, of those that depend on the engine */
	int (*start)(struct exanest_engine *engine);
	void (*stop)(struct exanest_engine *engine);
	/*
	 * A context became ready: have some thread call exanest_engine_serve
	 * until it returns false. Must not sleep.
	 */
	void (*wake)(struct exanest_engine *engine);
	/*
	 * Move what is still to be moved of a block, now or in the background,
	 * and hand it back as transfer.h says. Translations are looked up, and
	 * held while they are used, as translation.h says. Only from
	 * exanest_engine_serve.
	 */
	void (*move)(struct exanest_engine *engine, struct exanest_block *block);
};

struct exanest_engine {
	const struct exanest_engine_operations *operations;
	spinlock_t lock;
	struct list_head ready; /* contexts, in the order of their turns */
};

extern const struct exanest_engine_operations exanest_software_engine;

/* The one that is in use. */
struct exanest_engine *exanest_engine(void);

int exanest_engine_start(const struct exanest_engine_operations *operations);
void exanest_engine_stop(void);

/* A context has something to do: it will have a turn. Any context but interrupts. */
void exanest_engine_ready(struct exanest_context *context);

/* Give the first context that is ready its turn. false: none was. Sleeps no longer than a lock. */
bool exanest_engine_serve(struct exanest_engine *engine);
bool exanest_engine_idle(struct exanest_engine *engine);

#endif
