/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of parameters as the user wrote them, in the environment (where
 * mpirun puts its command line) and in files. They are checked here because Open
 * MPI takes "abc" for 0 and "12x" for 12, and ignores names that it does not know.
 */
#include "btl_exanest_parameter.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "opal/util/argv.h"

#define PREFIX "btl_exanest_"
/* A name with more letters wrong than this is no misspelling. */
#define MISSPELT_MOST 3

/* ---- reading ---- */

void mca_btl_exanest_read_file(const char *path, mca_btl_exanest_setting_fn call, void *arg)
{
	FILE *file = fopen(path, "re");
	size_t size = 0, name, gap;
	char *line = NULL, *end;

	while (file && getline(&line, &size, file) >= 0) {
		name = strspn(line, " \t");
		gap = name + strcspn(line + name, " \t=#\n");
		end = line + gap + strspn(line + gap, " \t");
		if (*end != '=')
			continue;
		line[gap] = '\0';
		end += 1 + strspn(end + 1, " \t");
		gap = strcspn(end, "#\n");
		while (gap && isspace((unsigned char)end[gap - 1]))
			gap--;
		end[gap] = '\0';
		call(line + name, end, path, arg);
	}
	free(line);
	if (file)
		fclose(file);
}

static void read_environment(const char *prefix, mca_btl_exanest_setting_fn call, void *arg)
{
	const size_t length = strlen(prefix);
	char name[128], **variable;
	const char *end;

	for (variable = environ; *variable; variable++) {
		if (strncmp(*variable, prefix, length))
			continue;
		end = strchr(*variable, '=');
		if (!end)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(end - *variable - (ptrdiff_t)length),
			 *variable + length);
		call(name, end + 1, NULL, arg);
	}
}

/* The files that Open MPI has read parameters from. */
static void read_files(const char *list, mca_btl_exanest_setting_fn call, void *arg)
{
	const int index = mca_base_var_find("opal", "mca", "base", list);
	char *const *value = NULL;
	char **paths;
	int i;

	if (index < 0 || OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL) ||
	    !value || !*value)
		return;
	paths = opal_argv_split(*value, ',');
	for (i = 0; paths && paths[i]; i++)
		mca_btl_exanest_read_file(paths[i], call, arg);
	opal_argv_free(paths);
}

/* ---- unknown names ---- */

/* How many letters to insert, drop or replace to make one word of the other; b has less than 64. */
static unsigned words_distance(const char *a, const char *b)
{
	const size_t columns = strlen(b);
	unsigned row[64], above, left, i;
	size_t j;

	if (columns >= sizeof(row) / sizeof(row[0]))
		return MISSPELT_MOST + 1;
	for (j = 0; j <= columns; j++)
		row[j] = (unsigned)j;
	for (i = 0; a[i]; i++) {
		left = row[0];
		row[0] = i + 1;
		for (j = 1; j <= columns; j++) {
			above = row[j];
			row[j] = left + (a[i] != b[j - 1]);
			if (above + 1 < row[j])
				row[j] = above + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			left = above;
		}
	}
	return row[columns];
}

struct nearest {
	const char *wanted;
	const char *name; /* NULL: none is near */
	unsigned distance;
};

static void nearest_compare(struct nearest *nearest, const char *name)
{
	const unsigned letters = words_distance(nearest->wanted, name);

	if (letters >= nearest->distance)
		return;
	nearest->distance = letters;
	nearest->name = name;
}

static void report_unknown(const char *prefix, const char *name, const char *file,
			   const char *nearest)
{
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_HOST, "unknown parameter",
		"%s%s (%s on %s) is not a parameter and has no effect%s%s%s\n"
		"\n"
		"All parameters and their values: ompi_info --param btl exanest --level 9",
		prefix, name, file ? file : "environment or command line",
		opal_process_info.nodename, nearest ? "; the nearest name is " : "",
		nearest ? prefix : "", nearest ? nearest : "");
}

static struct nearest nearest_to(const char *name)
{
	const unsigned most = (unsigned)strlen(name) / 2;

	return (struct nearest){ .wanted = name,
				 .distance = (most < MISSPELT_MOST ? most : MISSPELT_MOST) + 1 };
}

static void check_name(const char *name, const char *file)
{
	struct nearest nearest = nearest_to(name);
	const int count = mca_base_var_get_count();
	const size_t prefix = strlen(PREFIX);
	const mca_base_var_t *variable;
	int i;

	for (i = 0; i < count; i++) {
		if (OPAL_SUCCESS == mca_base_var_get(i, &variable) &&
		    !strncmp(variable->mbv_full_name, PREFIX, prefix))
			nearest_compare(&nearest, variable->mbv_full_name + prefix);
	}
	report_unknown(PREFIX, name, file, nearest.name);
}

/* PF_ may be the prefix of another program, too: only what looks like a misspelling is reported. */
static void check_environment_name(const char *name, const char *value, const char *file, void *arg)
{
	char option[128], right[128];
	struct nearest nearest;
	const pf_option_info *info;
	const pf_text_info *text;
	size_t i;

	for (i = 0; name[i] && i < sizeof(option) - 1; i++)
		option[i] = (char)tolower((unsigned char)name[i]);
	option[i] = '\0';
	nearest = nearest_to(option);
	for (info = pf_option_table(); info->name; info++)
		nearest_compare(&nearest, info->name);
	for (text = pf_text_table(); text->name; text++)
		nearest_compare(&nearest, text->name);
	if (!nearest.name || !nearest.distance)
		return;
	mca_btl_exanest_environment_name(nearest.name, right, sizeof(right));
	report_unknown("PF_", name, file, right + strlen("PF_"));
}

/* ---- wrong values ---- */

static void report_value(const char *name, const char *value, const char *permitted,
			 const char *meaning)
{
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_HOST, "wrong value",
		"%s is \"%s\" on %s; permitted: %s\n"
		"\n"
		"%s%s%s"
		"BTL exanest is not used with a wrong value: correct it, or leave it out to get the\n"
		"default.",
		name, value, opal_process_info.nodename, permitted, meaning ? "Meaning: " : "",
		meaning ? meaning : "", meaning ? "\n" : "");
}

static const pf_option_info *find_option(const char *name)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		if (!strcmp(info->name, name))
			return info;
	}
	return NULL;
}

static void describe_names(mca_base_var_enum_t *names, char *text, size_t size)
{
	const char *name;
	size_t used = 0;
	int value, i;

	for (i = 0; used < size && OPAL_SUCCESS == names->get_value(names, i, &value, &name); i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
}

/* What a parameter may be. value: the number that was refused, or NULL if the text is none. */
static void describe_permitted(const char *name, const unsigned long long *value, char *text,
			       size_t size)
{
	const pf_option_info *info = find_option(name);
	const mca_base_var_t *variable;
	const char *rule = "";

	if (OPAL_SUCCESS == mca_base_var_get(mca_btl_exanest_find_variable(name), &variable) &&
	    variable->mbv_enumerator) {
		describe_names(variable->mbv_enumerator, text, size);
		return;
	}
	if (!info) {
		snprintf(text, size, "a number, with an optional suffix K, M or G");
		return;
	}
	/* The one rule of libpf that is not in its table. */
	if (value && *value >= info->minimum && *value <= info->maximum)
		rule = "powers of two from ";
	snprintf(text, size, "%s%llu to %llu, with an optional suffix K, M or G", rule,
		 (unsigned long long)info->minimum, (unsigned long long)info->maximum);
}

/* A number as Open MPI reads it, and nothing behind it. Counts may be -1: no limit. */
static bool is_number(const char *text, bool may_be_negative)
{
	char *end;

	if (may_be_negative && *text == '-')
		text++;
	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	(void)strtoull(text, &end, 0);
	if (errno)
		return false;
	if (*end && strchr("kKmMgG", *end))
		end++;
	return !*end;
}

static bool is_value_valid(const mca_base_var_t *variable, const char *value)
{
	mca_base_var_enum_t *names = variable->mbv_enumerator;
	int number;

	if (!*value || variable->mbv_type == MCA_BASE_VAR_TYPE_STRING)
		return true;
	if (names)
		return OPAL_SUCCESS == names->value_from_string(names, value, &number);
	return is_number(value, variable->mbv_type == MCA_BASE_VAR_TYPE_INT);
}

/* A setting that another one overrides is not checked. */
static bool is_in_force(int index, const char *file)
{
	const char *from = NULL;
	const mca_base_var_source_t source = mca_btl_exanest_source(index, &from);

	if (!file)
		return source == MCA_BASE_VAR_SOURCE_ENV ||
		       source == MCA_BASE_VAR_SOURCE_COMMAND_LINE;
	return from && !strcmp(from, file);
}

static void check_setting(const char *name, const char *value, const char *file, void *arg)
{
	const pf_option_info *info = find_option(name);
	const mca_base_var_t *variable;
	char permitted[256], full[160];
	const int index = mca_btl_exanest_find_variable(name);
	bool *valid = arg;

	if (index < 0 || OPAL_SUCCESS != mca_base_var_get(index, &variable)) {
		check_name(name, file);
		return;
	}
	if (!is_in_force(index, file) || is_value_valid(variable, value))
		return;
	*valid = false;
	describe_permitted(name, NULL, permitted, sizeof(permitted));
	snprintf(full, sizeof(full), PREFIX "%s", name);
	report_value(full, value, permitted, info ? info->help : NULL);
}

static void check_file_setting(const char *name, const char *value, const char *file, void *arg)
{
	if (!strncmp(name, PREFIX, strlen(PREFIX)))
		check_setting(name + strlen(PREFIX), value, file, arg);
}

static void check_environment(bool *valid)
{
	const pf_option_info *info = mca_btl_exanest_component.culprit;
	char name[64], permitted[256];
	unsigned long long number;
	const char *value;

	read_environment("PF_", check_environment_name, NULL);
	if (!info)
		return;
	mca_btl_exanest_environment_name(info->name, name, sizeof(name));
	value = getenv(name);
	/* It may have been corrected since the parameters were registered. */
	if (!value)
		return;
	number = strtoull(value, NULL, 10);
	describe_permitted(info->name, is_number(value, false) ? &number : NULL, permitted,
			   sizeof(permitted));
	report_value(name, value, permitted, info->help);
	*valid = false;
}

static void check_size(const char *name, size_t size, bool *valid)
{
	char text[32], permitted[64];

	if (size >= MCA_BTL_EXANEST_HEADER_ROOM)
		return;
	snprintf(text, sizeof(text), "%zu", size);
	snprintf(permitted, sizeof(permitted), "at least %d", MCA_BTL_EXANEST_HEADER_ROOM);
	report_value(name, text, permitted, "Each piece of a message has a header of Open MPI");
	*valid = false;
}

/* pf_capabilities forks: only for jobs that ask for the device. */
static bool is_device_there(void)
{
	pf_capability list[32];
	const int count = pf_capabilities(list, sizeof(list) / sizeof(list[0]));
	int i;

	for (i = 0; i < count; i++) {
		if (strcmp(list[i].name, "/dev/exanest") || list[i].available)
			continue;
		mca_btl_exanest_report(
			MCA_BTL_EXANEST_HOST, "no device",
			"btl_exanest_transport is \"device\" on %s, but %s\n"
			"\n"
			"Load the module (as root: modprobe exanest), or leave btl_exanest_transport at\n"
			"\"auto\", which uses /dev/exanest where it is.",
			opal_process_info.nodename, list[i].detail);
		return false;
	}
	return true;
}

bool mca_btl_exanest_check_settings(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const mca_btl_base_module_t *btl = &mca_btl_exanest_module.super;
	bool valid = true;

	mca_btl_exanest_read_choices();
	read_environment(OPAL_MCA_PREFIX PREFIX, check_setting, &valid);
	read_files("param_files", check_file_setting, &valid);
	read_files("override_param_file", check_file_setting, &valid);
	check_environment(&valid);
	/* Open MPI has read what is no number as 0. */
	if (!valid)
		return false;
	check_size(PREFIX "rndv_eager_limit", btl->btl_rndv_eager_limit, &valid);
	check_size(PREFIX "max_send_size", btl->btl_max_send_size, &valid);
	check_size(PREFIX "net_rndv_eager_limit", component->net_rndv_eager_limit, &valid);
	check_size(PREFIX "net_max_send_size", component->net_max_send_size, &valid);
	if (component->options.transport == PF_TRANSPORT_DEVICE && !is_device_there())
		return false;
	return valid;
}

/* ---- values that libpf refuses ---- */

/* libpf has the rules: ask about each value, with the defaults for all others. */
void mca_btl_exanest_report_refused(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	char name[64], value[32], permitted[256];
	const pf_option_info *info;
	const pf_text_info *text;
	pf_options options;

	for (info = pf_option_table(); info->name; info++) {
		options = component->defaults;
		*(uint64_t *)((char *)&options + info->offset) = *mca_btl_exanest_option(info);
		if (!pf_options_error(&options, NULL, 0))
			continue;
		snprintf(name, sizeof(name), PREFIX "%s", info->name);
		snprintf(value, sizeof(value), "%llu", *mca_btl_exanest_option(info));
		describe_permitted(info->name, mca_btl_exanest_option(info), permitted,
				   sizeof(permitted));
		report_value(name, value, permitted, info->help);
	}
	for (text = pf_text_table(); text->name; text++) {
		const char *const *field =
			(const void *)((const char *)&component->options + text->offset);

		options = component->defaults;
		options.if_include = options.if_exclude = NULL;
		*(const char **)((char *)&options + text->offset) = *field;
		if (!pf_options_error(&options, NULL, 0))
			continue;
		snprintf(name, sizeof(name), PREFIX "%s", text->name);
		report_value(
			name, *field,
			"names of interfaces and networks in CIDR notation, separated by commas",
			text->help);
	}
	/* The one rule for two options together. */
	if (component->options.port_min <= component->options.port_max)
		return;
	snprintf(value, sizeof(value), "%llu", (unsigned long long)component->options.port_min);
	report_value(PREFIX "port_min", value, "at most btl_exanest_port_max", NULL);
}
