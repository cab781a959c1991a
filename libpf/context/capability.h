/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine offers to a context: each layer is tried. */
#ifndef PF_CAPABILITY_H
#define PF_CAPABILITY_H

#include "pf.h"

/* As pf_capabilities. */
int capabilities_find(pf_capability *entries, int size);

#endif
