/* SPDX-License-Identifier: GPL-2.0 */
/* What contexts and engines counted, for administrators. */
#ifndef EXANEST_STATISTICS_H
#define EXANEST_STATISTICS_H

/* debugfs: exanest/contexts and exanest/engines. Failure costs only the file. */
void exanest_statistics_start(void);
void exanest_statistics_stop(void);

#endif
