// SPDX-License-Identifier: GPL-2.0
#include <linux/eventfd.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "ring.h"

static uint poll_us_max = 100;
module_param(poll_us_max, uint, 0644);
MODULE_PARM_DESC(poll_us_max,
		 "Longest time, us, that the engine watches the rings of an idle context");

static bool entries_valid(u32 entries)
{
	return is_power_of_2(entries) && entries <= EXANEST_RING_ENTRIES_MAX;
}

/* Where a ring lies in the mapping; returns where the next may begin. */
static u64 ring_place(const struct exanest_ring *ring, size_t entry_size, u64 at, __u64 *head,
		      __u64 *slots)
{
	*head = at;
	*slots = at + sizeof(struct exanest_ring_head);
	return ALIGN(*slots + (u64)ring->entries * entry_size, sizeof(struct exanest_ring_head));
}

static void ring_map(struct exanest_ring *ring, void *map, u64 head, u64 slots)
{
	ring->head = map + head;
	ring->slots = map + slots;
}

void exanest_ring_set_free(struct exanest_ring_set *rings)
{
	unsigned int i;

	if (!rings)
		return;
	if (rings->completion_eventfd)
		eventfd_ctx_put(rings->completion_eventfd);
	if (rings->fault_eventfd)
		eventfd_ctx_put(rings->fault_eventfd);
	vunmap(rings->map);
	for (i = 0; i < rings->page_count && rings->pages[i]; i++)
		put_page(rings->pages[i]);
	kvfree(rings->pages);
	kfree(rings);
}

static int ring_set_memory(struct exanest_ring_set *rings, u64 bytes)
{
	unsigned int i, count = bytes >> PAGE_SHIFT;

	rings->pages = kvcalloc(count, sizeof(*rings->pages), GFP_KERNEL_ACCOUNT);
	if (!rings->pages)
		return -ENOMEM;
	rings->page_count = count;
	for (i = 0; i < count; i++) {
		rings->pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!rings->pages[i])
			return -ENOMEM;
	}
	rings->map = vmap(rings->pages, count, VM_MAP, PAGE_KERNEL);
	return rings->map ? 0 : -ENOMEM;
}

static int ring_set_eventfd(s32 fd, struct eventfd_ctx **eventfd)
{
	struct eventfd_ctx *found;

	if (fd == -1)
		return 0;
	found = eventfd_ctx_fdget(fd);
	if (IS_ERR(found))
		return PTR_ERR(found);
	*eventfd = found;
	return 0;
}

struct exanest_ring_set *exanest_ring_set_create(struct exanest_rings *request)
{
	struct exanest_ring_set *rings;
	u64 bytes = 0;
	int error;

	if (!entries_valid(request->submissions) || !entries_valid(request->completions) ||
	    (request->faults && !entries_valid(request->faults)) || request->reserved)
		return ERR_PTR(-EINVAL);
	rings = kzalloc(sizeof(*rings), GFP_KERNEL_ACCOUNT);
	if (!rings)
		return ERR_PTR(-ENOMEM);
	rings->submission.entries = request->submissions;
	rings->completion.entries = request->completions;
	rings->fault.entries = request->faults;
	rings->poll_us = request->poll_us;
	init_waitqueue_head(&rings->wait);

	bytes = ring_place(&rings->submission, sizeof(struct exanest_submission), bytes,
			   &request->submission_head, &request->submission_entries);
	bytes = ring_place(&rings->completion, sizeof(struct exanest_completion), bytes,
			   &request->completion_head, &request->completion_entries);
	bytes = ring_place(&rings->fault, sizeof(struct exanest_fault), bytes, &request->fault_head,
			   &request->fault_entries);
	bytes = PAGE_ALIGN(bytes);
	request->map_bytes = bytes;

	error = ring_set_memory(rings, bytes);
	if (!error)
		error = ring_set_eventfd(request->completion_eventfd, &rings->completion_eventfd);
	if (!error)
		error = ring_set_eventfd(request->fault_eventfd, &rings->fault_eventfd);
	if (error) {
		exanest_ring_set_free(rings);
		return ERR_PTR(error);
	}
	ring_map(&rings->submission, rings->map, request->submission_head,
		 request->submission_entries);
	ring_map(&rings->completion, rings->map, request->completion_head,
		 request->completion_entries);
	ring_map(&rings->fault, rings->map, request->fault_head, request->fault_entries);
	exanest_doorbell_need(rings, true);
	return rings;
}

int exanest_ring_set_mmap(struct exanest_ring_set *rings, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_pgoff || vma_pages(vma) != rings->page_count)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	/* VM_IO: madvise(2) cannot undo VM_DONTCOPY, and the rings are no memory of transfers. */
	exanest_vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	exanest_vm_flags_clear(vma, VM_MAYEXEC);
	return vm_map_pages(vma, rings->pages, rings->page_count);
}

__poll_t exanest_ring_set_poll(struct exanest_ring_set *rings, struct file *file, poll_table *table)
{
	__poll_t mask = 0;

	poll_wait(file, &rings->wait, table);
	if (READ_ONCE(rings->broken))
		mask |= EPOLLERR;
	if (READ_ONCE(rings->completion.counter) != READ_ONCE(rings->completion.head->consumer))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (rings->fault.entries &&
	    READ_ONCE(rings->fault.counter) != READ_ONCE(rings->fault.head->consumer))
		mask |= EPOLLIN | EPOLLRDNORM;
	return mask;
}

static void ring_flag(struct exanest_ring *ring, u32 flag, bool set)
{
	u32 flags = set ? ring->flags | flag : ring->flags & ~flag;

	if (flags == ring->flags)
		return;
	ring->flags = flags;
	WRITE_ONCE(ring->head->flags, flags);
}

static void ring_set_tell(struct exanest_ring_set *rings, struct eventfd_ctx *eventfd,
			  __poll_t events)
{
	if (eventfd)
		exanest_eventfd_signal(eventfd);
	if (wq_has_sleeper(&rings->wait))
		wake_up_interruptible_poll(&rings->wait, events);
}

static void ring_set_break(struct exanest_ring_set *rings)
{
	WRITE_ONCE(rings->broken, true);
	ring_flag(&rings->submission, EXANEST_RING_BROKEN, true);
	ring_set_tell(rings, rings->completion_eventfd, EPOLLERR);
}

void exanest_doorbell_need(struct exanest_ring_set *rings, bool need)
{
	ring_flag(&rings->submission, EXANEST_RING_NEED_DOORBELL, need);
	if (need)
		smp_mb(); /* pairs with the one between a caller's counter and its look at flags */
}

bool exanest_ring_set_watched(struct exanest_ring_set *rings, bool busy)
{
	u64 now;

	if (!rings->poll_us)
		return false;
	now = ktime_get_ns();
	if (busy)
		rings->active = now;
	return now - rings->active <
	       (u64)min(rings->poll_us, READ_ONCE(poll_us_max)) * NSEC_PER_USEC;
}

/* Copied word by word, so that the compiler cannot look at a word twice. */
static void entry_read(void *entry, const void *slot, size_t size)
{
	size_t i;

	for (i = 0; i < size / sizeof(u64); i++)
		((u64 *)entry)[i] = READ_ONCE(((const u64 *)slot)[i]);
}

/* Places left in a ring that the kernel fills; -1: the consumer's counter is nonsense. */
static s64 ring_room(const struct exanest_ring *ring)
{
	u32 used = ring->counter - smp_load_acquire(&ring->head->consumer);

	return used > ring->entries ? -1 : (s64)ring->entries - used;
}

static void ring_post(struct exanest_ring *ring, const void *entry, size_t size)
{
	memcpy(ring->slots + (ring->counter & (ring->entries - 1)) * size, entry, size);
	WRITE_ONCE(ring->counter, ring->counter + 1);
	smp_store_release(&ring->head->producer, ring->counter);
}

bool exanest_submission_take(struct exanest_ring_set *rings, unsigned int outstanding,
			     struct exanest_submission *submission)
{
	struct exanest_ring *ring = &rings->submission;
	u32 ahead;
	s64 room;

	if (rings->broken)
		return false;
	ahead = smp_load_acquire(&ring->head->producer) - ring->counter;
	if (!ahead)
		return false;
	room = ring_room(&rings->completion);
	if (ahead > ring->entries || room < 0) {
		ring_set_break(rings);
		return false;
	}
	if (room <= outstanding)
		return false;
	entry_read(submission,
		   ring->slots + (ring->counter & (ring->entries - 1)) * sizeof(*submission),
		   sizeof(*submission));
	ring->counter++;
	smp_store_release(&ring->head->consumer, ring->counter);
	return true;
}

void exanest_completion_post(struct exanest_ring_set *rings,
			     const struct exanest_completion *completion)
{
	ring_post(&rings->completion, completion, sizeof(*completion));
	rings->completions = true;
}

void exanest_completion_signal(struct exanest_ring_set *rings)
{
	if (!rings->completions)
		return;
	rings->completions = false;
	ring_set_tell(rings, rings->completion_eventfd, EPOLLIN | EPOLLRDNORM);
}

bool exanest_fault_post(struct exanest_ring_set *rings, const struct exanest_fault *fault)
{
	bool room = ring_room(&rings->fault) > 0;

	ring_flag(&rings->fault, EXANEST_RING_OVERFLOW, !room);
	if (!room)
		return false;
	ring_post(&rings->fault, fault, sizeof(*fault));
	ring_set_tell(rings, rings->fault_eventfd, EPOLLIN | EPOLLRDNORM);
	return true;
}
