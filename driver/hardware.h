/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engines in hardware, as engine.md specifies them: PCI functions that move bytes through
 * page tables of their own, between processes of this machine and, over their link, of others.
 *
 * A block of this node that meets an absent page is not parked in the engine: its fault is
 * rejected, so that it completes with the address, and the driver's resolver, which knows
 * policies, pagers and limits, has the page brought in and sends the block again. Blocks of
 * other nodes are parked, and resumed when the page is there.
 *
 * What the engine writes (indices, completions, faults) is read once and checked; what
 * cannot be resets it. Every wait for it has an end, after which it is cut off memory.
 *
 * State. The engine is ready, or off: then it accesses no memory. epoch counts how often it
 * went off. So who waits for a command waits no more when the epoch is another one.
 *
 * Lock order: state_lock, then completions.lock or faults.lock, then exports_lock; tables.lock of a
 * memory, then commands_lock. Handlers of interrupts take no state_lock, as who holds it may wait
 * for them.
 */
#ifndef EXANEST_HARDWARE_H
#define EXANEST_HARDWARE_H

#include <linux/io.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "engine.h"
#include "registers.h"
#include "tables.h"

#define GONE (~0U) /* what registers of a removed device read as */

struct queue {
	void *entries;
	dma_addr_t address;
	u32 index;         /* the next one that the driver writes, or reads */
	struct mutex lock; /* of those that the driver reads */
};

struct device_engine {
	struct pci_dev *pci;
	void __iomem *registers;
	void __iomem *doorbell;
	u32 doorbell_base;
	struct exanest_engine_operations operations;
	struct exanest_engine *engine; /* from the first attach on */
	u32 depth;                     /* entries of each queue, at least the blocks in flight */
	u32 blocks;                    /* that the engine has outstanding */
	u32 address_bits, spaces_max;
	u32 command_time; /* us */
	u32 node;         /* number of this one */
	const u16 *peers; /* numbers of the others */
	unsigned int peers_count;
	struct queue commands, submissions, completions, faults;
	struct exanest_engine_indices *indices; /* written by the engine */
	dma_addr_t indices_address;

	struct mutex state_lock; /* of what follows */
	bool cut;                /* no bus master any more: it did not stop */
	bool removed;
	bool suspended; /* it is off */
	u64 incarnation;
	u32 generation; /* of the last space */
	struct list_head memories;
	struct mutex exports_lock; /* of what follows, which also needs state_lock to be changed */
	struct xarray exports;     /* struct device_export, by number of the space */

	spinlock_t commands_lock; /* of commands and what follows; ready also needs state_lock */
	bool ready;
	bool holding; /* entry held of the command queue is still to be looked at */
	u32 held;
	unsigned int epoch;

	spinlock_t flights_lock;
	struct exanest_descriptor *flights; /* by slot; length 0: none */
};

/* The memory of a process: a space of the layers above. */
struct device_memory {
	struct list_head link;
	struct exanest_space *client;
	struct exanest_tables tables;
	struct list_head exports; /* also under tables.lock, as is the number of them */
	unsigned int exports_count;
};

/* A space of engine.md: the memory of a process, for those who have the key of a context. */
struct device_export {
	struct list_head link;
	struct device_memory *memory;
	struct exanest_export *client;
	u32 number, generation;
};

/* A command that was given to the engine. */
struct ticket {
	u32 index;
	unsigned int epoch;
};

static inline u32 register_read(const struct device_engine *device, unsigned int offset)
{
	return readl(device->registers + offset);
}

static inline void register_write(struct device_engine *device, unsigned int offset, u32 value)
{
	writel(value, device->registers + offset);
}

static inline void register_write64(struct device_engine *device, unsigned int offset, u64 value)
{
	writeq(value, device->registers + offset);
}

static inline void ring_doorbell(struct device_engine *device, enum exanest_doorbell number)
{
	writel(device->doorbell_base + number, device->doorbell + EXANEST_DOORBELL_OFFSET);
}

/* Sleep for a moment, but for the first looks. */
void exanest_hardware_look_again(unsigned int *looks);
/* In jiffies: when that many commands are done at the latest. */
unsigned long exanest_command_deadline(const struct device_engine *device, u32 commands);
/* The engine is to be reset; the reason is for the log. */
void exanest_hardware_fail(struct device_engine *device, const char *reason);

/*
 * Commands.
 */
/* Room for that many. commands_lock is held. */
bool exanest_commands_have_room(const struct device_engine *device, unsigned int count);
/* commands_lock is held, the engine is ready, and there is room. */
void exanest_command_put(struct device_engine *device, const struct exanest_engine_command *command,
			 struct ticket *ticket);
/*
 * Give the engine a command. hold: keep its entry until the status was read, as
 * exanest_command_run does. -ENODEV: it is off; -ETIMEDOUT: it takes no commands. Sleeps.
 */
int exanest_command_give(struct device_engine *device, const struct exanest_engine_command *command,
			 bool hold, struct ticket *ticket);
/* Give a command, unless the engine was off since that epoch, which is -ENODEV, too. Sleeps. */
int exanest_command_give_in(struct device_engine *device, unsigned int epoch,
			    const struct exanest_engine_command *command);
/* 0: the command was executed, or the engine was off since. Sleeps. */
int exanest_command_wait(struct device_engine *device, const struct ticket *ticket);
/* state_lock is held. 0 if the engine executed it and says that it went well. Sleeps. */
int exanest_command_run(struct device_engine *device, const struct exanest_engine_command *command);

/*
 * State. state_lock is held, but for the last two.
 */
/* The engine is off when it returns, and cut off memory if it did not stop. */
void exanest_hardware_stop(struct device_engine *device);
/* Attach the space of an export: as exanest_command_run. */
int exanest_hardware_enter(struct device_engine *device, const struct device_export *export);
/* Start an engine that is off and DISABLED, with all peers and exports. -EIO: it is off again. */
int exanest_hardware_start(struct device_engine *device);
/* The engine did not do in this epoch what it has to: when this returns it was off. No lock is held. */
void exanest_hardware_cut_off(struct device_engine *device, unsigned int epoch, const char *reason);
/* It was not ready: when this returns it was off since. No lock is held. */
void exanest_hardware_await_off(struct device_engine *device);

/*
 * Blocks that the engine has.
 */
void exanest_flight_put(struct device_engine *device, const struct exanest_descriptor *what);
/* false: the engine does not have such a block. */
bool exanest_flight_take(struct device_engine *device, u64 tag, struct exanest_descriptor *what);
/*
 * Whether the block in a slot is the client's and is to be aborted; then *tag is its tag. An
 * atomic that was aborted may have been executed, so it is left to its end, which is near, but on
 * another node.
 */
bool exanest_flight_aborts(struct device_engine *device, unsigned int slot,
			   const struct exanest_export *client, u32 *tag);
/* Whether a block is in flight in the engine. */
bool exanest_flights_any(struct device_engine *device);
/* state_lock is held, and the engine is off. No handler has a block in hand when it returns. */
void exanest_flights_drop(struct device_engine *device);

#endif
