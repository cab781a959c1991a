/* SPDX-License-Identifier: BSD-3-Clause */
/* Capabilities of this machine: each layer is tried. */
#ifndef PF_CAPABILITY_H
#define PF_CAPABILITY_H

#include <libpf/pf.h>

/* See pf_capabilities. */
int capabilities_find(pf_capability *list, size_t size, int most);

#endif
