/* SPDX-License-Identifier: GPL-2.0 */
/* Submissions: section 7.2 of engine.md. */
#ifndef SECOND_SUBMISSION_H
#define SECOND_SUBMISSION_H

#include "state.h"

void run_submission_doorbell(struct engine *e);

#endif
