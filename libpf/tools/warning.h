/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_WARNING_H
#define TOOLS_WARNING_H

#include "pf.h"

/* For pf_set_warning: a line on stderr. */
void warning_print(pf_context *context, pf_peer *peer, const char *text, void *arg);

#endif
