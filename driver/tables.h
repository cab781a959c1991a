/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page tables of one space for an engine in hardware: engine.md, section 6.
 *
 * An entry is 0, valid, or taken: not valid any more, but the engine has not confirmed
 * that it forgot it. A taken entry keeps its address, and whether the engine wrote to
 * the page. A page is entered only while no invalidation of its span is in progress
 * (mmu_interval_read_retry), so a taken entry never becomes valid.
 */
#ifndef EXANEST_TABLES_H
#define EXANEST_TABLES_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct device;
struct exanest_space;
struct exanest_table;
struct exanest_translation;

struct exanest_tables {
	spinlock_t lock; /* of all that follows; taken inside that of a translation */
	struct device *device;
	struct exanest_table *root;
	unsigned int levels;
	u8 bits; /* width of virtual addresses */
};

/* Addresses have at most bits bits. Sleeps. */
int exanest_tables_init(struct exanest_tables *tables, struct device *device, unsigned int bits);
/* The engine reads them no more. */
void exanest_tables_free(struct exanest_tables *tables);
dma_addr_t exanest_tables_root(const struct exanest_tables *tables);

/*
 * Enter the valid ones of pages [first, first + count) of a span, whose lock is held for
 * writing. After an error some are entered; they are true, and taken like others.
 * -EAGAIN: an invalidation is in progress.
 */
int exanest_tables_map(struct exanest_tables *tables, struct exanest_translation *translation,
		       unsigned int first, unsigned int count);

/*
 * Make what is valid of [start, end) absent. The lock is held. false: nothing in the
 * range was valid, and nothing is taken; so no INVALIDATE is needed.
 */
bool exanest_tables_take(struct exanest_tables *tables, u64 start, u64 end);
/* The same question, without a change. */
bool exanest_tables_present(struct exanest_tables *tables, u64 start, u64 end);
/*
 * The engine has forgotten [start, end), which was taken: mark the pages that it wrote to
 * dirty, and let go of them and of tables that are empty.
 */
void exanest_tables_release(struct exanest_tables *tables, struct exanest_space *space, u64 start,
			    u64 end);

/* Bytes from address on up to the first page without a valid entry; at most length. */
u32 exanest_tables_mapped(struct exanest_tables *tables, u64 address, u32 length);

#endif
