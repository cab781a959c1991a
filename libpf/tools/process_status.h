/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_PROCESS_STATUS_H
#define TOOLS_PROCESS_STATUS_H

#include <sys/types.h>

/* A number of /proc/PID/status, as VmHWM (KiB); -1: there is no such process or field. */
long process_status(pid_t pid, const char *field);

#endif
