/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_PROCESS_STATUS_H
#define TOOLS_PROCESS_STATUS_H

#include <sys/types.h>

/* A number of /proc/PID/status, as VmHWM (KiB); -1: no process or field of the name. */
long process_status(pid_t pid, const char *field);

#endif
