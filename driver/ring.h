/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings that a context shares with its process. What is in them is the
 * process's to scribble on at any time: an entry is read once, and the
 * kernel's own counters are not read from there at all.
 */
#ifndef EXANEST_RING_H
#define EXANEST_RING_H

#include <linux/poll.h>
#include <linux/types.h>

#include "uapi/exanest.h"

#define EXANEST_RING_ENTRIES_MAX 4096U

struct eventfd_ctx;
struct vm_area_struct;

struct exanest_ring {
	struct exanest_ring_head *head; /* shared */
	void *slots;                    /* shared */
	u32 entries;                    /* 0: no such ring */
	u32 counter;                    /* the kernel's own of the two */
	u32 flags;
};

struct exanest_ring_set {
	struct page **pages;
	unsigned int page_count;
	void *map;
	bool broken;
	wait_queue_head_t wait; /* poll(2) */
	/* Submissions and completions: who serves the context. Faults: the pager's lock. */
	struct exanest_ring submission, completion, fault;
	struct eventfd_ctx *completion_eventfd, *fault_eventfd;
	u32 poll_us;
	u64 active;       /* ns: when work was last found */
	bool completions; /* posted and not signalled yet */
};

/* Checks what a process asks for, and fills in what goes out of it. ERR_PTR. */
struct exanest_ring_set *exanest_ring_set_create(struct exanest_rings *request);
int exanest_ring_set_mmap(struct exanest_ring_set *rings, struct vm_area_struct *vma);
__poll_t exanest_ring_set_poll(struct exanest_ring_set *rings, struct file *file,
			       poll_table *table);
void exanest_ring_set_free(struct exanest_ring_set *rings); /* NULL is allowed */

/*
 * For who serves the context.
 */
/* The next submission, if there is one and its completion has a place. */
bool exanest_submission_take(struct exanest_ring_set *rings, unsigned int outstanding,
			     struct exanest_submission *submission);
/* There is a place: the submission's. */
void exanest_completion_post(struct exanest_ring_set *rings,
			     const struct exanest_completion *completion);
/* Tell the process what was posted since the last call. */
void exanest_completion_signal(struct exanest_ring_set *rings);
/* Ask for doorbells, or no more. Asked for, the rings have to be looked at once more. */
void exanest_doorbell_need(struct exanest_ring_set *rings, bool need);
/* The process asked for the rings to be watched, and work was found not long ago. */
bool exanest_ring_set_watched(struct exanest_ring_set *rings, bool busy);

/* Under the pager's lock. false: the ring is full, and says so from now on. */
bool exanest_fault_post(struct exanest_ring_set *rings, const struct exanest_fault *fault);

#endif
