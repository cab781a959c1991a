/* SPDX-License-Identifier: BSD-3-Clause */
/* Write JSON to standard output, member by member. key is NULL in an array. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* Open and close an object ('{', '}') or an array ('[', ']'). */
void json_start(const char *key, char bracket);
void json_end(char bracket);
/* End the line after the outermost json_end. Another object may follow. */
void json_finish(void);

void json_string(const char *key, const char *value);
void json_number(const char *key, uint64_t value);
void json_real(const char *key, double value);
void json_boolean(const char *key, bool value);
void json_null(const char *key);
/* Write the member "version": libpf's. */
void json_version(void);

#endif
