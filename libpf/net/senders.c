/* SPDX-License-Identifier: BSD-3-Clause */
#include "senders.h"

/*
 * ns. Of 1,024 senders with packets of 1,200 bytes each is heard once in a period at 50 Gbit/s
 * and more. A sender that ended is forgotten after two periods: transfers of 64 KiB from 8 senders at a
 * time take 170 us at 25 Gbit/s.
 */
#define PERIOD 200000u

/* ns from a pause to the next: of a round trip of 100 us it takes 0.6 % of the time. */
#define PAUSE_PERIOD 16000000u

void senders_heard(struct senders *senders, uint64_t now, uint16_t *last)
{
	if (now - senders->since >= PERIOD || !senders->period) {
		senders->before = now - senders->since < 2 * PERIOD ? senders->count : 0;
		senders->count = 0;
		senders->since = now;
		senders->period = senders->period == UINT16_MAX ? 1 : senders->period + 1;
	}
	if (now - senders->paused >= PAUSE_PERIOD) {
		senders->paused = now;
		senders->pauses++;
	}
	if (*last == senders->period)
		return;
	*last = senders->period;
	senders->count += senders->count < UINT16_MAX;
}

uint16_t senders_count(const struct senders *senders, uint64_t now)
{
	uint16_t count = senders->count;

	if (now - senders->since >= 2 * PERIOD)
		return 1;
	if (senders->before > count)
		count = senders->before;
	return count ? count : 1;
}
