/* SPDX-License-Identifier: BSD-3-Clause */
#include <err.h>
#include <unistd.h>

#include "address_file.h"
#include "partner.h"

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

/* A signal ends partner_serve, and the address file is removed. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

int partner_listen(const pf_options *options, const char *file, const char *secret)
{
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	struct partner *partner = partner_open(options);
	pf_context *context;
	int status = -1;

	if (!partner)
		return -1;
	context = partner_context(partner);
	catch_signals();
	if (secret_file_join(secret, context) || pf_address(context, address, &length) != PF_OK ||
	    address_file_create(file, address, length))
		goto out;
	status = partner_serve(partner, &stop);
	unlink(file);
	if (status)
		return -1;
out:
	partner_close(partner);
	return status;
}
