/* SPDX-License-Identifier: GPL-2.0 */
/* Page faults: section 7.4 of engine.md. */
#ifndef SECOND_FAULT_H
#define SECOND_FAULT_H

#include "state.h"

/* Record a page fault and write its entry, when there is room. */
void raise_fault(struct engine *e, struct fault *fault, u64 address);
/* Forget a page fault, if there is one. */
void clear_fault(struct engine *e, struct fault *fault);
/* NULL: there is no fault with this number. */
struct fault *find_fault(struct engine *e, u64 id);
void run_fault_doorbell(struct engine *e);

#endif
