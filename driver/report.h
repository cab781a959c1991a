/* SPDX-License-Identifier: GPL-2.0 */
/* The interrupts of an engine in hardware, with which it reports. */
#ifndef EXANEST_REPORT_H
#define EXANEST_REPORT_H

struct device_engine;

/* Its handlers run from now on. An error of the kernel; what was requested is freed with the device. */
int exanest_report_start(struct device_engine *device);
/* No handler runs any more when it returns. */
void exanest_report_stop(struct device_engine *device);

#endif
