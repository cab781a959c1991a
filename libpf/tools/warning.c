/* SPDX-License-Identifier: BSD-3-Clause */
#include "warning.h"

#include <err.h>

void warning_print(pf_context *context, pf_peer *peer, const char *text, void *arg)
{
	(void)context;
	(void)peer;
	(void)arg;
	warnx("warning: %s", text);
}
