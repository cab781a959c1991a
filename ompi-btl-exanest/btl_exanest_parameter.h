/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MCA_BTL_EXANEST_PARAMETER_H
#define MCA_BTL_EXANEST_PARAMETER_H

#include "btl_exanest.h"

#include "opal/mca/base/mca_base_var.h"

static inline unsigned long long *mca_btl_exanest_option(const pf_option_info *info)
{
	_Static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "an option is a uint64_t");

	return (void *)((char *)&mca_btl_exanest_component.options + info->offset);
}

/* Return the limit of a module for payloads of the length. */
static inline size_t mca_btl_exanest_with_header(size_t payload)
{
	return payload > SIZE_MAX - MCA_BTL_EXANEST_HEADER_ROOM ?
		       SIZE_MAX :
		       payload + MCA_BTL_EXANEST_HEADER_ROOM;
}

/* btl_exanest_parameter.c */
/* Copy the values chosen by name into libpf's options. */
void mca_btl_exanest_read_choices(void);
/* Return the index of a parameter, or a negative error. */
int mca_btl_exanest_find_variable(const char *name);
/* Does a parameter have a value of the user's, or of the calibration file? */
bool mca_btl_exanest_is_set(const char *name);

/* btl_exanest_setting.c */
/* file: NULL for the environment. */
typedef void (*mca_btl_exanest_setting_fn)(const char *name, const char *value, const char *file);
/* Call for each line "name = value", as in files of MCA parameters and in libpf's calibration. */
void mca_btl_exanest_read_file(const char *path, mca_btl_exanest_setting_fn call);

#endif
