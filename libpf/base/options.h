/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options: table, texts, and values from defaults, calibration file and environment. The help
 * texts of the table are the only help texts: pf_info(1), libpf(7) and ompi_info show the table.
 */
#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "location.h"
#include <libpf/pf.h>

/* Entries of pf_option_table, the end included, at most. */
#define OPTIONS_MAX 32

uint64_t *option_field(pf_options *options, const pf_option_info *info);
const char **option_text(pf_options *options, const pf_text_info *info);
bool option_valid(const pf_option_info *info, uint64_t value);
/* A decimal number with an optional suffix K, M or G (powers of 1024); false for anything else. */
bool number_parse(const char *text, uint64_t *value);
/* The name of a value, or a valid number. False, with *value unchanged, for anything else. */
bool option_parse(const pf_option_info *info, const char *text, uint64_t *value);
/* NULL for an option whose values have no names. */
const char *option_value_name(const pf_option_info *info, uint64_t value);
/*
 * Describe the values for option_parse: "from 0 to 7", "a power of two from 1 to 8", "red, green
 * or blue".
 */
void option_allowed(const pf_option_info *info, char *buffer, size_t size);
/* The environment variable of an option: "LIBPF_EAGER_LIMIT" for "eager_limit". */
void option_variable(const char *option, char *buffer, size_t size);

/* Origin of the value of an option. */
enum option_origin { OPTION_DEFAULT, OPTION_CALIBRATION, OPTION_ENVIRONMENT };

/*
 * options_read_*: overwrite the fields of *options set by the source, and note the source in
 * origins, which is indexed as pf_option_table and may be NULL.
 */
void options_read_defaults(pf_options *options, enum option_origin *origins);
/*
 * Returns PF_OK, PF_ERR_SYSTEM (no file; errno is kept), PF_ERR_REFUSED (made on
 * another machine) or PF_ERR_ARGUMENT (malformed). Unless PF_OK, nothing changes.
 */
int options_read_calibration(pf_options *options, enum option_origin *origins);
/*
 * Read the value of share_min by the distance of a peer. The calibration file may have a value
 * for a distance; the value counts while the option has the value of the file: an option set
 * otherwise counts for all distances.
 */
void options_read_share_min(const pf_options *options, uint64_t share_min[DISTANCES]);
/*
 * Returns PF_ERR_ARGUMENT if a variable is invalid; *culprit, unless culprit is NULL, is the
 * first invalid option. An invalid variable leaves its option and origin unchanged; the other
 * variables count.
 */
int options_read_environment(pf_options *options, enum option_origin *origins,
			     const pf_option_info **culprit);
/*
 * Fill *all, of the present version, from options of any version: missing options are filled as
 * by options_load. NULL: all options are. PF_ERR_ARGUMENT: the size is invalid, or an option
 * unknown to the present version is set; for NULL, a variable is invalid.
 */
int options_complete(const pf_options *options, pf_options *all);
/* pf_options_init, with the origin of each option. */
int options_load(pf_options *options, enum option_origin *origins, const pf_option_info **culprit);

/*
 * Describe the first option of *options, or the first LIBPF_* variable if options is NULL, with an
 * invalid value: "LIBPF_THREADS=2 is invalid: must be from 0 to 1". Returns the length as snprintf
 * does; 0 if all are valid. Numbers and choices only: the layer of a text option knows the valid
 * texts.
 */
int options_error(const pf_options *options, char *buffer, size_t size);
/* Describe an invalid value of an option: name is "threads" or "LIBPF_THREADS". */
int option_error(const char *name, const char *value, const char *allowed, char *buffer,
		 size_t size);

/*
 * Call report for every variable LIBPF_* of the environment without an option, with the variable of
 * the most similar option, or NULL. Returns their number. LIBPF_TEST_* is left to the tests.
 */
size_t options_unknown(void (*report)(const char *name, const char *nearest, void *arg), void *arg);

#endif
