/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON to standard output, one member after the other. key is NULL in an array. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* bracket is '{' or '['; json_end closes it with '}' or ']'. */
void json_start(const char *key, char bracket);
void json_end(char bracket);
/* After the outermost json_end: ends the line, and lets another object follow. */
void json_finish(void);

void json_string(const char *key, const char *value);
void json_number(const char *key, uint64_t value);
void json_real(const char *key, double value);
void json_boolean(const char *key, bool value);
void json_null(const char *key);

#endif
