// SPDX-License-Identifier: GPL-2.0
/* The registers of BAR2. */
#include <string.h>

#include "registers.h"

u32 get32(const struct engine *e, enum reg offset)
{
	u32 value;

	memcpy(&value, e->registers + offset, sizeof(value));
	return value;
}

u64 get64(const struct engine *e, enum reg offset)
{
	u64 value;

	memcpy(&value, e->registers + offset, sizeof(value));
	return value;
}

void set32(struct engine *e, enum reg offset, u32 value)
{
	memcpy(e->registers + offset, &value, sizeof(value));
}

void set64(struct engine *e, enum reg offset, u64 value)
{
	memcpy(e->registers + offset, &value, sizeof(value));
}

void count(struct engine *e, enum reg counter, u64 n)
{
	set64(e, counter, get64(e, counter) + n);
}

bool is_ready(const struct engine *e)
{
	return get32(e, REG_STATUS) == ENGINE_READY;
}

bool has_failed(const struct engine *e)
{
	return get32(e, REG_STATUS) == ENGINE_FAILED;
}

/* Raise the vectors that are due. */
void raise_vectors(struct engine *e)
{
	for (unsigned int vector = VECTOR_STATUS; vector <= VECTOR_COMMAND; vector++) {
		if (!(e->due >> vector & 1))
			continue;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!(get32(e, REG_IRQ_ENABLE) >> vector & 1))
			continue;
		count(e, REG_INTERRUPTS, 1);
		e->raised |= 1u << vector;
	}
	e->due = 0;
}

void fail(struct engine *e, enum engine_error error, u64 detail)
{
	if (has_failed(e))
		return;
	set32(e, REG_ERROR, error);
	set64(e, REG_ERROR_DETAIL, detail);
	set32(e, REG_STATUS, ENGINE_FAILED);
	e->due = 1u << VECTOR_STATUS;
}
