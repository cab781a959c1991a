/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options: their table, their texts, and their values from defaults, calibration
 * file and environment. The help texts of the table are the only ones:
 * pf_info(1), libpf(7) and ompi_info show them.
 */
#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "location.h"
#include "pf.h"

/* Most entries of pf_option_table, its end included. */
#define OPTIONS_MAX 32
/* A larger pf_options.size is no size of any version. */
#define OPTIONS_SIZE_MOST 4096

uint64_t *option_field(pf_options *options, const pf_option_info *info);
const char **option_text(pf_options *options, const pf_text_info *info);
bool option_valid(const pf_option_info *info, uint64_t value);
/* A decimal number with an optional suffix K, M or G (powers of 1024); false for anything else. */
bool number_parse(const char *text, uint64_t *value);
/* The name of a value, or a valid number. False, with *value unchanged, for anything else. */
bool option_parse(const pf_option_info *info, const char *text, uint64_t *value);
/* NULL for an option whose values have no names. */
const char *option_value_name(const pf_option_info *info, uint64_t value);
/* What option_parse accepts: "from 0 to 7", "a power of two from 1 to 8", "red, green or blue". */
void option_allowed(const pf_option_info *info, char *buffer, size_t size);
/* The environment variable of an option: "PF_EAGER_LIMIT" for "eager_limit". */
void option_variable(const char *option, char *buffer, size_t size);
/* The option whose name is most like this one (case does not count), or NULL if none is similar. */
const char *option_nearest(const char *name);

/* Where the value of an option comes from. */
enum option_origin { OPTION_DEFAULT, OPTION_CALIBRATION, OPTION_ENVIRONMENT };

/*
 * Each of these overwrites the fields of *options that its source sets, and
 * notes that in origins, which is indexed as pf_option_table and may be NULL.
 */
void options_read_defaults(pf_options *options, enum option_origin *origins);
/*
 * Returns PF_OK, PF_ERR_SYSTEM (no file; errno is kept), PF_ERR_REFUSED (made on
 * another machine) or PF_ERR_ARGUMENT (malformed). Unless PF_OK, nothing changes.
 */
int options_read_calibration(pf_options *options, enum option_origin *origins);
/*
 * The value of share_min by the distance of a peer. The calibration file may have one of its own for
 * a distance; it counts while the option has the value of the file, so that a value that was set
 * otherwise counts for all.
 */
void options_read_share_min(const pf_options *options, uint64_t share_min[DISTANCES]);
/*
 * Returns PF_ERR_ARGUMENT if a variable is invalid; *culprit, unless culprit is
 * NULL, is the first such option. An invalid variable leaves its option, and the
 * origin of it, unchanged; the other variables count.
 */
int options_read_environment(pf_options *options, enum option_origin *origins,
			     const pf_option_info **culprit);
/*
 * Fill *all, which is of this version, from options of any: those that it does not have are as
 * options_load gives them. NULL: all are. PF_ERR_ARGUMENT: the size is invalid, or an option is set
 * that this version does not have; for NULL, a variable is invalid.
 */
int options_complete(const pf_options *options, pf_options *all);
/* pf_options_init, with the origin of each option. */
int options_load(pf_options *options, enum option_origin *origins, const pf_option_info **culprit);

/*
 * Describe the first option of *options, or the first PF_* variable if options is
 * NULL, that has an invalid value: "PF_THREADS=2 is invalid: must be from 0 to 1".
 * Returns the length as snprintf does; 0 if all are valid. Numbers and choices
 * only: whether a text is valid is known to the layer that uses it.
 */
int options_error(const pf_options *options, char *buffer, size_t size);
/* The same for one option: name is "threads" or "PF_THREADS". */
int option_error(const char *name, const char *value, const char *allowed, char *buffer,
		 size_t size);

/*
 * Call report for every variable PF_* of the environment that belongs to no option,
 * with the variable of the most similar option, or NULL. Returns how many there
 * are. PF_TEST_* is left to the tests.
 */
size_t options_unknown(void (*report)(const char *name, const char *nearest, void *arg), void *arg);

#endif
