// SPDX-License-Identifier: GPL-2.0
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "registers.h"
#include "tables.h"
#include "translation.h"

/* Bits of the address that select an entry of a table, which is one page. */
#define INDEX_BITS (PAGE_SHIFT - 3)
#define ENTRIES (1U << INDEX_BITS)

/*
 * Where a table of level 0 describes one span, it goes with its last page. A larger one
 * stays as long as the space, like those above: invalidations of other spans may need it.
 */
#define LEAVES_GO (PAGE_SHIFT + INDEX_BITS <= EXANEST_SPAN_SHIFT)

/* What the engine may have made of the entries is believed in one point: DIRTY. */
struct exanest_table {
	__le64 *entries; /* what the engine reads */
	dma_addr_t address;
	struct exanest_table *parent;
	unsigned int place; /* in the parent */
	bool linked;        /* the parent's entry is valid */
	unsigned int level;
	unsigned int used, valid; /* level 0: pages; those whose entry is valid */
	union {
		DECLARE_FLEX_ARRAY(struct exanest_table *, children); /* above level 0 */
		DECLARE_FLEX_ARRAY(u64, pages); /* level 0: the entries, as they were written */
	};
};

static unsigned int level_shift(unsigned int level)
{
	return PAGE_SHIFT + level * INDEX_BITS;
}

static unsigned int table_index(u64 address, unsigned int level)
{
	return (address >> level_shift(level)) & (ENTRIES - 1);
}

static void entry_write(struct exanest_table *table, unsigned int index, u64 value)
{
	WRITE_ONCE(table->entries[index], cpu_to_le64(value));
}

/* xchg and cmpxchg of arm64 take no type that sparse restricts. The value stays little endian. */
static u64 *entry_raw(struct exanest_table *table, unsigned int index)
{
	return (__force u64 *)&table->entries[index];
}

/* Returns whether the engine has written to the page, or will within what INVALIDATE waits for. */
static bool entry_clear(struct exanest_table *table, unsigned int index)
{
	__le64 old = (__force __le64)xchg(entry_raw(table, index), 0);

	return le64_to_cpu(old) & EXANEST_PTE_DIRTY;
}

/*
 * The engine and the processor use memory at the same time. A bus for which the kernel has
 * to copy, or to flush caches, cannot be used in this way.
 */
static int map_page(struct device *device, struct page *page, dma_addr_t *address)
{
	*address = dma_map_page_attrs(device, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL,
				      DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(device, *address))
		return -ENOMEM;
	if (!dma_need_sync(device, *address))
		return 0;
	dma_unmap_page_attrs(device, *address, PAGE_SIZE, DMA_BIDIRECTIONAL,
			     DMA_ATTR_SKIP_CPU_SYNC);
	dev_err_ratelimited(device, "memory that is not coherent, or above its DMA mask\n");
	return -EIO;
}

static void unmap_page(struct device *device, dma_addr_t address)
{
	dma_unmap_page_attrs(device, address, PAGE_SIZE, DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
}

static struct exanest_table *table_create(struct device *device, unsigned int level, gfp_t gfp)
{
	struct exanest_table *table;
	int error = -ENOMEM;

	table = kzalloc(struct_size(table, pages, ENTRIES), gfp);
	if (!table)
		return ERR_PTR(-ENOMEM);
	table->level = level;
	table->entries = (__le64 *)get_zeroed_page(gfp);
	if (!table->entries)
		goto free;
	error = map_page(device, virt_to_page(table->entries), &table->address);
	if (!error)
		return table;
	free_page((unsigned long)table->entries);
free:
	kfree(table);
	return ERR_PTR(error);
}

static void table_destroy(struct device *device, struct exanest_table *table)
{
	unmap_page(device, table->address);
	free_page((unsigned long)table->entries);
	kfree(table);
}

int exanest_tables_init(struct exanest_tables *tables, struct device *device, unsigned int bits)
{
	struct exanest_table *root;

	spin_lock_init(&tables->lock);
	tables->device = device;
	tables->bits = bits;
	tables->levels = DIV_ROUND_UP(bits - PAGE_SHIFT, INDEX_BITS);
	root = table_create(device, tables->levels - 1, GFP_KERNEL_ACCOUNT);
	if (IS_ERR(root))
		return PTR_ERR(root);
	tables->root = root;
	return 0;
}

void exanest_tables_free(struct exanest_tables *tables)
{
	struct exanest_table *table = tables->root, *parent;
	unsigned int i;

	/* Depth first: a table goes when its children are gone. */
	while (table) {
		for (i = 0; table->level && i < ENTRIES && !table->children[i]; i++)
			;
		if (table->level && i < ENTRIES) {
			table = table->children[i];
			continue;
		}
		for (i = 0; !table->level && i < ENTRIES; i++) {
			if (table->pages[i])
				unmap_page(tables->device, table->pages[i] & EXANEST_PTE_ADDRESS);
		}
		parent = table->parent;
		if (parent)
			parent->children[table->place] = NULL;
		table_destroy(tables->device, table);
		table = parent;
		cond_resched();
	}
	tables->root = NULL;
}

dma_addr_t exanest_tables_root(const struct exanest_tables *tables)
{
	return tables->root->address;
}

/* The table of level 0 for an address, which is made if there is none. The lock is held. */
static struct exanest_table *leaf_make(struct exanest_tables *tables, u64 address)
{
	struct exanest_table *table = tables->root, *child;
	unsigned int place;

	for (; table->level; table = child) {
		place = table_index(address, table->level);
		child = table->children[place];
		if (child) {
			if (!child->linked)
				return ERR_PTR(-EAGAIN); /* it is on its way out */
			continue;
		}
		child = table_create(tables->device, table->level - 1,
				     GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
		if (IS_ERR(child))
			return child;
		child->parent = table;
		child->place = place;
		child->linked = true;
		table->children[place] = child;
		smp_wmb(); /* its zeros before its address */
		entry_write(table, place, child->address | EXANEST_PTE_VALID);
	}
	return table;
}

/*
 * The first table of level 0 for an address from *address on, which is advanced to what it
 * describes. NULL: there is none below end. The lock is held.
 */
static struct exanest_table *leaf_next(struct exanest_tables *tables, u64 *address, u64 end)
{
	struct exanest_table *table, *child;

	while (*address < end) {
		for (table = tables->root; table->level; table = child) {
			child = table->children[table_index(*address, table->level)];
			if (!child)
				break;
		}
		if (!table->level)
			return table;
		*address = (*address | ((1ULL << level_shift(table->level)) - 1)) + 1;
	}
	return NULL;
}

static u64 leaf_end(u64 address, u64 end)
{
	return min(end, (address | ((1ULL << level_shift(1)) - 1)) + 1);
}

/* The page stays the same. It may become writable, which needs no INVALIDATE. */
static void entry_permit(struct exanest_table *leaf, unsigned int index)
{
	const u64 writable = (__force u64)cpu_to_le64(EXANEST_PTE_WRITE);
	u64 *entry = entry_raw(leaf, index), old = READ_ONCE(*entry);

	leaf->pages[index] |= EXANEST_PTE_WRITE;
	while (!(old & writable)) {
		if (try_cmpxchg(entry, &old, old | writable))
			break;
	}
}

static int entry_enter(struct exanest_tables *tables, struct exanest_table *leaf,
		       unsigned int index, unsigned long pfn)
{
	bool write = (pfn & EXANEST_ENTRY_WRITE) == EXANEST_ENTRY_WRITE;
	dma_addr_t address;
	int error;

	if (leaf->pages[index] & EXANEST_PTE_VALID) {
		if (write && !(leaf->pages[index] & EXANEST_PTE_WRITE))
			entry_permit(leaf, index);
		return 0;
	}
	if (leaf->pages[index])
		return -EAGAIN;
	error = map_page(tables->device, hmm_pfn_to_page(pfn), &address);
	if (error)
		return error;
	leaf->used++;
	leaf->valid++;
	leaf->pages[index] = address | EXANEST_PTE_VALID | EXANEST_PTE_LEAF |
			     (write ? EXANEST_PTE_WRITE : 0);
	entry_write(leaf, index, leaf->pages[index]);
	return 0;
}

int exanest_tables_map(struct exanest_tables *tables, struct exanest_translation *translation,
		       unsigned int first, unsigned int count)
{
	u64 address = exanest_translation_start(translation) + ((u64)first << PAGE_SHIFT);
	struct exanest_table *leaf = NULL;
	unsigned long pfn;
	int error = 0;

	if (address + ((u64)count << PAGE_SHIFT) > 1ULL << tables->bits)
		return -EFAULT;
	spin_lock(&tables->lock);
	for (; count && !error; count--, first++, address += PAGE_SIZE) {
		pfn = translation->entries[first];
		if (!(pfn & HMM_PFN_VALID))
			continue;
		if (!leaf || !table_index(address, 0))
			leaf = leaf_make(tables, address);
		error = IS_ERR(leaf) ? PTR_ERR(leaf) :
				       entry_enter(tables, leaf, table_index(address, 0), pfn);
	}
	spin_unlock(&tables->lock);
	return error;
}

/* The engine finds no page by it any more. Returns whether it is to be told. */
static bool leaf_unlink(struct exanest_table *leaf)
{
	if (!LEAVES_GO || leaf->valid || !leaf->linked)
		return false;
	leaf->linked = false;
	entry_clear(leaf->parent, leaf->place);
	return true;
}

bool exanest_tables_take(struct exanest_tables *tables, u64 start, u64 end)
{
	struct exanest_table *leaf;
	bool found = false;
	u64 stop, *page;

	for (; (leaf = leaf_next(tables, &start, end)); start = stop) {
		stop = leaf_end(start, end);
		for (; start < stop && leaf->used; start += PAGE_SIZE) {
			page = &leaf->pages[table_index(start, 0)];
			found |= *page;
			if (!(*page & EXANEST_PTE_VALID))
				continue;
			*page &= ~EXANEST_PTE_VALID;
			if (entry_clear(leaf, table_index(start, 0)))
				*page |= EXANEST_PTE_DIRTY;
			leaf->valid--;
		}
		found |= leaf_unlink(leaf);
	}
	return found;
}

bool exanest_tables_present(struct exanest_tables *tables, u64 start, u64 end)
{
	struct exanest_table *leaf;
	bool found = false;
	u64 stop;

	spin_lock(&tables->lock);
	for (; !found && (leaf = leaf_next(tables, &start, end)); start = stop) {
		stop = leaf_end(start, end);
		for (; !found && start < stop && leaf->used; start += PAGE_SIZE)
			found = leaf->pages[table_index(start, 0)];
	}
	spin_unlock(&tables->lock);
	return found;
}

static void mark_dirty(struct exanest_space *space, u64 address)
{
	struct exanest_translation *translation;

	rcu_read_lock();
	translation = exanest_translation_find(space, address);
	if (translation)
		exanest_translation_mark(translation, address & (EXANEST_SPAN_SIZE - 1), PAGE_SIZE,
					 true);
	rcu_read_unlock();
}

void exanest_tables_release(struct exanest_tables *tables, struct exanest_space *space, u64 start,
			    u64 end)
{
	struct exanest_table *leaf;
	u64 stop, *page;

	spin_lock(&tables->lock);
	for (; (leaf = leaf_next(tables, &start, end)); start = stop) {
		stop = leaf_end(start, end);
		for (; start < stop && leaf->used; start += PAGE_SIZE) {
			page = &leaf->pages[table_index(start, 0)];
			if (!*page || *page & EXANEST_PTE_VALID)
				continue;
			if (*page & EXANEST_PTE_DIRTY)
				mark_dirty(space, start);
			unmap_page(tables->device, *page & EXANEST_PTE_ADDRESS);
			*page = 0;
			leaf->used--;
		}
		if (leaf->parent && !leaf->linked && !leaf->used) {
			leaf->parent->children[leaf->place] = NULL;
			table_destroy(tables->device, leaf);
		}
	}
	spin_unlock(&tables->lock);
}

u32 exanest_tables_mapped(struct exanest_tables *tables, u64 address, u32 length)
{
	u64 at = address, end = address + length, next;
	struct exanest_table *leaf;

	spin_lock(&tables->lock);
	while (at < end) {
		next = at;
		leaf = leaf_next(tables, &next, end);
		if (!leaf || next != at || !(leaf->pages[table_index(at, 0)] & EXANEST_PTE_VALID))
			break;
		at = (at | (PAGE_SIZE - 1)) + 1;
	}
	spin_unlock(&tables->lock);
	return min(at, end) - address;
}
