/* SPDX-License-Identifier: BSD-3-Clause */
#include "senders.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/number.h"

/*
 * ns. A period is long enough to hear most senders: at 25 Gbit/s a packet of 1,200 bytes takes
 * 400 ns. On slower links a period ends after twice as many packets as senders were heard, because
 * senders do not take turns, or after PERIOD_MOST. A sender that ended is forgotten after two
 * periods; a transfer of 64 KiB, among 8 at a time, takes 170 us at 25 Gbit/s.
 */
#define PERIOD_LEAST 20000u
#define PERIOD_SENDER 800u
#define PERIOD_MOST 200000u

/* ns from a pause to the next: pauses for a round trip of 100 us take 0.6 % of the time. */
#define PAUSE_PERIOD 16000000u

static uint32_t senders_max(const struct senders *senders)
{
	return (uint32_t)number_max(senders->count, senders->before);
}

/* Return the shortest length of the present period, ns. */
static uint32_t least_period(const struct senders *senders)
{
	return PERIOD_LEAST + PERIOD_SENDER * senders_max(senders);
}

/* Return the time without packets after which all senders are forgotten, ns. */
static uint32_t senders_memory(const struct senders *senders)
{
	return 2 * (uint32_t)number_max(least_period(senders), PERIOD_MOST);
}

/* Is the present period, begun time ns ago, over? */
static bool is_over(const struct senders *senders, uint64_t time)
{
	return time >= least_period(senders) &&
	       (senders->packets >= 2 * senders_max(senders) || time >= PERIOD_MOST);
}

void senders_heard(struct senders *senders, uint64_t now, uint16_t *last)
{
	assert_that(now >= senders->since);
	if (is_over(senders, now - senders->since) || !senders->period) {
		senders->before = now - senders->since < senders_memory(senders) ? senders->count :
										   0;
		senders->count = 0;
		senders->packets = 0;
		senders->since = now;
		senders->period = senders->period == UINT16_MAX ? 1 : senders->period + 1;
	}
	if (now - senders->paused >= PAUSE_PERIOD) {
		senders->paused = now;
		senders->pauses++;
	}
	senders->packets++;
	assert_that(senders->period);
	if (*last == senders->period)
		return;
	*last = senders->period;
	senders->count += senders->count < UINT16_MAX;
}

uint16_t senders_count(const struct senders *senders, uint64_t now)
{
	assert_that(now >= senders->since);
	if (now - senders->since >= senders_memory(senders) || !senders_max(senders))
		return 1;
	return (uint16_t)senders_max(senders);
}
