/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>

#include <libpf/pf.h>

/* True before the first member of an object or array. */
static bool first = true;

static void json_text(const char *string)
{
	const unsigned char *at;

	putchar('"');
	for (at = (const unsigned char *)string; *at; at++) {
		if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if (*at < 0x20)
			printf("\\u%04x", *at);
		else
			putchar(*at);
	}
	putchar('"');
}

static void json_key(const char *key)
{
	if (!first)
		putchar(',');
	first = false;
	if (!key)
		return;
	json_text(key);
	putchar(':');
}

void json_start(const char *key, char bracket)
{
	json_key(key);
	putchar(bracket);
	first = true;
}

void json_end(char bracket)
{
	putchar(bracket);
	first = false;
}

void json_finish(void)
{
	putchar('\n');
	first = true;
}

void json_string(const char *key, const char *value)
{
	json_key(key);
	json_text(value);
}

void json_number(const char *key, uint64_t value)
{
	json_key(key);
	printf("%" PRIu64, value);
}

void json_real(const char *key, double value)
{
	json_key(key);
	printf("%.6f", value);
}

void json_boolean(const char *key, bool value)
{
	json_key(key);
	fputs(value ? "true" : "false", stdout);
}

void json_null(const char *key)
{
	json_key(key);
	fputs("null", stdout);
}

void json_version(void)
{
	json_string("version", PF_VERSION_STRING);
}
