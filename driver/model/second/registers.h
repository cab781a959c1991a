/* SPDX-License-Identifier: GPL-2.0 */
/* The registers of BAR2: sections 3 and 4 of engine.md. */
#ifndef SECOND_REGISTERS_H
#define SECOND_REGISTERS_H

#include "state.h"

u32 get32(const struct engine *e, enum reg offset);
u64 get64(const struct engine *e, enum reg offset);
void set32(struct engine *e, enum reg offset, u32 value);
void set64(struct engine *e, enum reg offset, u64 value);
/* Add to a counter. */
void count(struct engine *e, enum reg counter, u64 n);
/* Return whether the engine is READY: nothing may be accessed or sent otherwise. */
bool is_ready(const struct engine *e);
/* Return whether the engine is FAILED: no guest memory may be accessed. */
bool has_failed(const struct engine *e);
void fail(struct engine *e, enum engine_error error, u64 detail);
/* Raise the vectors that are due. */
void raise_vectors(struct engine *e);

#endif
