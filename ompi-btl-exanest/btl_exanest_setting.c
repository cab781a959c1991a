/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of parameters, by the texts that Open MPI has read from the environment (where
 * mpirun puts its command line) and from files. Open MPI takes "abc" for 0 and "12x" for
 * 12, and ignores unknown names.
 */
#include "btl_exanest_parameter.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "opal/mca/base/mca_base_vari.h"
#include "opal/util/argv.h"

#define PREFIX "btl_exanest_"
/* Most wrong letters of a misspelling: with more the name is another word. */
#define MISSPELT_MOST 3

/* ---- names and texts ---- */

void mca_btl_exanest_read_file(const char *path, mca_btl_exanest_setting_fn call)
{
	const mca_base_var_file_value_t *line;
	opal_list_t lines;

	OBJ_CONSTRUCT(&lines, opal_list_t);
	(void)mca_base_parse_paramfile(path, &lines);
	OPAL_LIST_FOREACH(line, &lines, mca_base_var_file_value_t)
		call(line->mbvfv_var, line->mbvfv_value ? line->mbvfv_value : "", path);
	OPAL_LIST_DESTRUCT(&lines);
}

/* Call for the files that Open MPI has read parameters from. */
static void files_read(const char *list, mca_btl_exanest_setting_fn call)
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
		mca_btl_exanest_read_file(paths[i], call);
	opal_argv_free(paths);
}

/* Call for the variables of the environment with the prefix, which names lack then. */
static void environment_read(const char *prefix, mca_btl_exanest_setting_fn call)
{
	const size_t length = strlen(prefix);
	char name[128], **variable;
	size_t end;

	for (variable = environ; *variable; variable++) {
		end = strcspn(*variable, "=");
		if (strncmp(*variable, prefix, length) || !(*variable)[end])
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(end - length), *variable + length);
		call(name, *variable + end + 1, NULL);
	}
}

/* Return the parameter of exanest with the index, without the prefix; NULL: there is none. */
static const char *parameter_name(int index, const mca_base_var_t **variable)
{
	if (OPAL_SUCCESS != mca_base_var_get(index, variable) ||
	    strncmp((*variable)->mbv_full_name, PREFIX, strlen(PREFIX)))
		return NULL;
	return (*variable)->mbv_full_name + strlen(PREFIX);
}

/* Return the text of a value in force; NULL: no text of the user is. */
static const char *parameter_text(const mca_base_var_t *variable)
{
	const mca_base_var_file_value_t *line = variable->mbv_file_value;
	char name[160];

	if (variable->mbv_source != MCA_BASE_VAR_SOURCE_ENV &&
	    variable->mbv_source != MCA_BASE_VAR_SOURCE_COMMAND_LINE)
		return line ? line->mbvfv_value : NULL;
	snprintf(name, sizeof(name), OPAL_MCA_PREFIX "%s", variable->mbv_full_name);
	return getenv(name);
}

/* ---- unknown names ---- */

/*
 * Count the letters to insert, drop or replace to make b, in lower case, of a, in any case.
 * Words that differ in more than most letters: returns most + 1.
 */
static unsigned words_distance(const char *a, const char *b, unsigned most)
{
	unsigned step, letters, least = most;

	while (*a && tolower((unsigned char)*a) == *b)
		a++, b++;
	if (!*a && !*b)
		return 0;
	/* Drop a letter of a (1), insert the letter of b (2), or replace one by the other (3). */
	for (step = 1; step <= 3 && most; step++) {
		if ((step & 1 && !*a) || (step & 2 && !*b))
			continue;
		letters = words_distance(a + (step & 1), b + (step >> 1), most - 1);
		least = letters < least ? letters : least;
	}
	return least + 1;
}

struct nearest {
	const char *name;  /* NULL: none is near */
	unsigned distance; /* letters that differ; without a name, too many */
};

static struct nearest nearest_start(const char *wanted)
{
	const unsigned most = (unsigned)strlen(wanted) / 2;

	return (struct nearest){ .distance = (most < MISSPELT_MOST ? most : MISSPELT_MOST) + 1 };
}

static void nearest_compare(struct nearest *nearest, const char *wanted, const char *name)
{
	const unsigned most = nearest->distance - 1;
	const unsigned distance = nearest->distance ? words_distance(wanted, name, most) : 1;

	if (distance < nearest->distance)
		*nearest = (struct nearest){ .name = name, .distance = distance };
}

static void name_check(const char *name, const char *value, const char *file)
{
	const int count = mca_base_var_get_count();
	const mca_base_var_t *variable;
	struct nearest nearest;
	const char *known;
	int i;

	if (strncmp(name, PREFIX, strlen(PREFIX)))
		return;
	name += strlen(PREFIX);
	if (mca_btl_exanest_find_variable(name) >= 0)
		return;
	nearest = nearest_start(name);
	for (i = 0; i < count; i++) {
		known = parameter_name(i, &variable);
		if (known)
			nearest_compare(&nearest, name, known);
	}
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_HOST, "unknown parameter",
		PREFIX "%s (%s on %s) is not a parameter and has no effect%s%s\n"
		       "\n"
		       "All parameters and their values: ompi_info --param btl exanest --level 9",
		name, file ? file : "environment or command line", opal_process_info.nodename,
		nearest.name ? "; the nearest name is " PREFIX : "",
		nearest.name ? nearest.name : "");
}

/* Tell the user of a variable of libpf that has another name in MPI jobs. */
static void variable_check(const char *name, const char *value, const char *file)
{
	char parameter[128];
	size_t i;

	for (i = 0; i < sizeof(parameter) - 1 && name[i]; i++)
		parameter[i] = (char)tolower((unsigned char)name[i]);
	parameter[i] = '\0';
	if (mca_btl_exanest_find_variable(parameter) < 0)
		return;
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_HOST, "no effect",
		"LIBPF_%s (environment on %s) has no effect in MPI jobs, " PREFIX "%s has\n"
		"\n"
		"The LIBPF_* variables are the settings of other programs of libpf. In MPI jobs they\n"
		"are MCA parameters, which mpirun gives to the processes on all hosts.",
		name, opal_process_info.nodename, parameter);
}

/* Only the first process of a host reports names, and has to read files. */
static void names_check(void)
{
	if (opal_process_info.my_local_rank != 0)
		return;
	environment_read(OPAL_MCA_PREFIX, name_check);
	files_read("param_files", name_check);
	files_read("override_param_file", name_check);
	environment_read("LIBPF_", variable_check);
}

/* ---- wrong values ---- */

/* error: as libpf describes errors, "run_max=3 is invalid: must be from 4096 to 1073741824" */
static void value_report(const char *error, const char *help)
{
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_HOST, "wrong value",
		PREFIX
		"%s (on %s)\n"
		"\n"
		"Meaning: %s\n"
		"BTL exanest is not used with a wrong value: correct it, or leave it out to get the\n"
		"default.",
		error, opal_process_info.nodename, help);
}

/* Does Open MPI read the text as the user meant it? Counts may be -1: no limit. */
static bool text_is_valid(const mca_base_var_t *variable, const char *text)
{
	mca_base_var_enum_t *names = variable->mbv_enumerator;
	char *end;
	int value;

	if (!*text || variable->mbv_type == MCA_BASE_VAR_TYPE_STRING)
		return true;
	if (names)
		return OPAL_SUCCESS == names->value_from_string(names, text, &value);
	text += *text == '-' && variable->mbv_type == MCA_BASE_VAR_TYPE_INT;
	errno = 0;
	(void)strtoull(text, &end, 0);
	if (!isdigit((unsigned char)*text) || errno)
		return false;
	return !*end || (strchr("kKmMgG", *end) && !end[1]);
}

static void names_describe(mca_base_var_enum_t *names, char *text, size_t size)
{
	size_t used = (size_t)snprintf(text, size, "one of ");
	const char *name;
	int value, i;

	for (i = 0; used < size && OPAL_SUCCESS == names->get_value(names, i, &value, &name); i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
}

static void text_report(const mca_base_var_t *variable, const char *name, const char *text)
{
	const pf_option_info *info = pf_option_table();
	char permitted[256] = "a number, with an optional suffix K, M or G", error[512];

	while (info->name && strcmp(info->name, name))
		info++;
	if (variable->mbv_enumerator)
		names_describe(variable->mbv_enumerator, permitted, sizeof(permitted));
	else if (info->name)
		snprintf(permitted, sizeof(permitted),
			 "from %llu to %llu, with an optional suffix K, M or G",
			 (unsigned long long)info->minimum, (unsigned long long)info->maximum);
	snprintf(error, sizeof(error), "%s=%s is invalid: must be %s", name, text, permitted);
	value_report(error, variable->mbv_description);
}

static void texts_check(bool *valid)
{
	const int count = mca_base_var_get_count();
	const mca_base_var_t *variable;
	const char *name, *text;
	int i;

	for (i = 0; i < count; i++) {
		name = parameter_name(i, &variable);
		text = name ? parameter_text(variable) : NULL;
		if (!text || text_is_valid(variable, text))
			continue;
		text_report(variable, name, text);
		*valid = false;
	}
}

static void size_check(const char *name, size_t size, bool *valid)
{
	char error[128];

	if (size >= MCA_BTL_EXANEST_HEADER_ROOM)
		return;
	snprintf(error, sizeof(error), "%s=%zu is invalid: must be at least %d", name, size,
		 MCA_BTL_EXANEST_HEADER_ROOM);
	value_report(error, "each piece of a message has a header of Open MPI");
	*valid = false;
}

/* Longest sleep that is permitted, microseconds. */
#define IDLE_SLEEP_MOST 10000000

static void idle_sleep_check(bool *valid)
{
	const unsigned long long value = mca_btl_exanest_component.idle_sleep;
	char error[128];

	if (value >= 1 && value <= IDLE_SLEEP_MOST)
		return;
	snprintf(error, sizeof(error), "idle_sleep=%llu is invalid: must be from 1 to %d", value,
		 IDLE_SLEEP_MOST);
	value_report(error, "microseconds that one sleep lasts, at most");
	*valid = false;
}

static void device_check(bool *valid)
{
	pf_capability list[32];
	const int count = pf_capabilities(list, sizeof(list[0]), sizeof(list) / sizeof(list[0]));
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
		*valid = false;
	}
}

bool mca_btl_exanest_check_settings(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const mca_btl_base_module_t *btl = &mca_btl_exanest_module.super;
	bool valid = true;

	mca_btl_exanest_read_choices();
	names_check();
	texts_check(&valid);
	/* Open MPI has read texts that are no numbers as 0. */
	if (!valid)
		return false;
	size_check("rndv_eager_limit", btl->btl_rndv_eager_limit, &valid);
	size_check("max_send_size", btl->btl_max_send_size, &valid);
	size_check("net_rndv_eager_limit", component->net_rndv_eager_limit, &valid);
	size_check("net_max_send_size", component->net_max_send_size, &valid);
	idle_sleep_check(&valid);
	if (component->options.transport == PF_TRANSPORT_DEVICE)
		device_check(&valid);
	return valid;
}

/* ---- values that libpf refuses ---- */

/* Report the fields at offset if libpf refuses them beside the defaults of all other options. */
static void field_check(size_t offset, size_t size, const char *help)
{
	const mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	pf_options options = component->defaults;
	char error[512];

	options.if_include = options.if_exclude = NULL;
	memcpy((char *)&options + offset, (const char *)&component->options + offset, size);
	if (pf_options_error(&options, error, sizeof(error)))
		value_report(error, help);
}

void mca_btl_exanest_report_refused(void)
{
	const pf_options *options = &mca_btl_exanest_component.options;
	const pf_option_info *info;
	const pf_text_info *text;

	for (info = pf_option_table(); info->name; info++)
		field_check(info->offset, sizeof(uint64_t), info->help);
	for (text = pf_text_table(); text->name; text++)
		field_check(text->offset, sizeof(const char *), text->help);
	/* The only rule for two options together, which are neighbours. */
	_Static_assert(offsetof(pf_options, port_max) ==
			       offsetof(pf_options, port_min) + sizeof(uint64_t),
		       "");
	if (options->port_min > options->port_max)
		field_check(offsetof(pf_options, port_min), 2 * sizeof(uint64_t),
			    "lowest and highest UDP port that is used");
}
