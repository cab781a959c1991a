/* SPDX-License-Identifier: GPL-2.0 */
/* The submissions of the driver: engine.md, section 7.2. */
#ifndef MODEL_SUBMISSION_H
#define MODEL_SUBMISSION_H

#include "core.h"

struct exanest_engine_submission;

/*
 * Check an entry. Returns an enum exanest_engine_status; after OK the operation
 * is one of submission, to peer, or NOP.
 */
uint32_t submission_check(struct core *core, const struct exanest_engine_submission *entry,
			  struct submission *submission, struct peer **peer);

#endif
