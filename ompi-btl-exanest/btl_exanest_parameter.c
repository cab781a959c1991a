/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MCA parameters: made from libpf's tables of options, and checked as the user
 * wrote them. Open MPI itself takes "abc" for 0, "12x" for 12, and ignores names
 * that it does not know.
 */
#include "btl_exanest.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "opal/mca/base/mca_base_var.h"
#include "opal/util/argv.h"

#define PREFIX "btl_exanest_"
#define NET_EAGER_LIMIT (32 * 1024 + MCA_BTL_EXANEST_HEADER_ROOM)
#define NET_SEND_SIZE (64 * 1024)
/* A name with more letters wrong than this is not a misspelling. */
#define MISSPELT_MOST 3

/* ---- settings as the user wrote them: in the environment and in files ---- */

/* file: NULL for the environment. */
typedef void (*setting_fn)(const char *name, const char *value, const char *file, void *arg);

/* Lines "name = value", as in files of MCA parameters and in libpf's calibration. */
static void read_file(const char *path, setting_fn call, void *arg)
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

static void read_environment(const char *prefix, setting_fn call, void *arg)
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
static void read_files(const char *list, setting_fn call, void *arg)
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
		read_file(paths[i], call, arg);
	opal_argv_free(paths);
}

/* ---- registration ---- */

static unsigned long long *option_field(const pf_option_info *info)
{
	_Static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "an option is a uint64_t");

	return (void *)((char *)&mca_btl_exanest_component.options + info->offset);
}

/*
 * Options for which Open MPI has a parameter or an answer of its own, and
 * calibrate, which has had its effect before there are parameters.
 */
static bool is_not_parameter(const pf_option_info *info)
{
	return info->offset == offsetof(pf_options, eager_limit) ||
	       info->offset == offsetof(pf_options, threads) ||
	       info->offset == offsetof(pf_options, calibrate);
}

static int *choice(const pf_option_info *info)
{
	return &mca_btl_exanest_component.choices[info->offset / sizeof(uint64_t)];
}

static int register_variable(const char *name, const char *help, mca_base_var_type_t type,
			     mca_base_var_enum_t *names, int level, void *storage)
{
	int index = mca_base_component_var_register(
		&mca_btl_exanest_component.super.btl_version, name, help, type, names, 0,
		(mca_base_var_flag_t)0, (mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + level - 1),
		MCA_BASE_VAR_SCOPE_LOCAL, storage);

	/* Open MPI has told the user; the parameter is there, with its default. See check_setting. */
	return index == OPAL_ERR_VALUE_OUT_OF_BOUNDS ? OPAL_SUCCESS : index;
}

static int register_choice(const pf_option_info *info)
{
	const size_t count = (size_t)(info->maximum - info->minimum + 1);
	mca_base_var_enum_value_t *values = calloc(count + 1, sizeof(*values));
	mca_base_var_enum_t *names;
	size_t i;
	int rc;

	if (NULL == values)
		return OPAL_ERR_OUT_OF_RESOURCE;
	for (i = 0; i < count; i++) {
		values[i].value = (int)(info->minimum + i);
		values[i].string = info->names[i];
	}
	rc = mca_base_var_enum_create(info->name, values, &names);
	free(values);
	if (OPAL_SUCCESS != rc)
		return rc;
	*choice(info) = (int)*option_field(info);
	rc = register_variable(info->name, info->help, MCA_BASE_VAR_TYPE_INT, names, info->level,
			       choice(info));
	OBJ_RELEASE(names);
	return rc;
}

static int register_option(const pf_option_info *info)
{
	const char *help = info->help;
	char longer[512];

	if (info->names)
		return register_choice(info);
	if (info->offset == offsetof(pf_options, idle_polls)) {
		snprintf(longer, sizeof(longer),
			 "%s. If it is not set, %d applies when Open MPI yields the processor "
			 "while idle (mpi_yield_when_idle, which mpirun sets for more processes "
			 "than cores)",
			 help, PF_IDLE_POLLS_SHARED_CORE);
		help = longer;
	}
	return register_variable(info->name, help, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
				 info->level, option_field(info));
}

static int register_options(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const pf_option_info *info;
	const pf_text_info *text;
	int rc;

	component->culprit = NULL;
	(void)pf_options_init(&component->options, &component->culprit);
	component->defaults = component->options;
	for (info = pf_option_table(); info->name; info++) {
		rc = is_not_parameter(info) ? OPAL_SUCCESS : register_option(info);
		if (rc < 0)
			return rc;
	}
	for (text = pf_text_table(); text->name; text++) {
		rc = register_variable(text->name, text->help, MCA_BASE_VAR_TYPE_STRING, NULL,
				       text->level, (char *)&component->options + text->offset);
		if (rc < 0)
			return rc;
	}
	return OPAL_SUCCESS;
}

static void register_descriptors(const char *name, const char *help, int value, int *storage)
{
	*storage = value;
	(void)register_variable(name, help, MCA_BASE_VAR_TYPE_INT, NULL, 9, storage);
}

static void register_size(const char *name, const char *help, size_t value, size_t *storage)
{
	*storage = value;
	(void)register_variable(name, help, MCA_BASE_VAR_TYPE_SIZE_T, NULL, 4, storage);
}

/* What Open MPI needs to know of the module, and lets the user change. */
static int register_module(mca_btl_base_module_t *btl)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	/* Below self and vader (sm). */
	btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH - 1;
	btl->btl_eager_limit = component->options.eager_limit + MCA_BTL_EXANEST_HEADER_ROOM;
	/* The pieces of what the receiver cannot fetch because it is not contiguous. */
	btl->btl_max_send_size = 32 * 1024;
	btl->btl_rndv_eager_limit = btl->btl_eager_limit < btl->btl_max_send_size ?
					    btl->btl_eager_limit :
					    btl->btl_max_send_size;
	btl->btl_rdma_pipeline_send_length = btl->btl_max_send_size;
	btl->btl_rdma_pipeline_frag_size = SIZE_MAX;
	/* A pipeline would hide the cost of registration, and there is none. */
	btl->btl_min_rdma_pipeline_size = SIZE_MAX;
	btl->btl_put_limit = SIZE_MAX;
	btl->btl_get_limit = SIZE_MAX;
	btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS |
			 MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_RDMA_FLUSH |
			 MCA_BTL_EXANEST_FLAGS;
	btl->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
				MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
				MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
				MCA_BTL_ATOMIC_SUPPORTS_32BIT | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
	btl->btl_latency = 1;       /* microseconds */
	btl->btl_bandwidth = 40000; /* Mbit/s */
	return mca_btl_base_param_register(&component->super.btl_version, btl);
}

/* ---- where defaults come from, for ompi_info ---- */

static int find_variable(const char *option)
{
	return mca_base_var_find("opal", "btl", "exanest", option);
}

static mca_base_var_source_t source_of(int index, const char **file)
{
	mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

	if (index >= 0)
		(void)mca_base_var_get_value(index, NULL, &source, file);
	return source;
}

/* Open MPI has the value; tell it that it is not the built-in default. */
static void set_source(const char *option, mca_base_var_source_t source, const char *file)
{
	const int index = find_variable(option);
	const mca_base_var_t *variable;
	const void *value = NULL;
	bool settable;

	if (source_of(index, NULL) != MCA_BASE_VAR_SOURCE_DEFAULT || index < 0 ||
	    OPAL_SUCCESS != mca_base_var_get(index, &variable) ||
	    OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL))
		return;
	settable = variable->mbv_flags & MCA_BASE_VAR_FLAG_SETTABLE;
	(void)mca_base_var_set_flag(index, MCA_BASE_VAR_FLAG_SETTABLE, true);
	(void)mca_base_var_set_value(index, value, 0, source, file);
	(void)mca_base_var_set_flag(index, MCA_BASE_VAR_FLAG_SETTABLE, settable);
}

/* The variable of libpf for an option: "PF_RING_SIZE". */
static void environment_name(const char *option, char *name, size_t size)
{
	size_t i;

	snprintf(name, size, "PF_%s", option);
	for (i = 0; name[i]; i++)
		name[i] = (char)toupper((unsigned char)name[i]);
}

static void set_calibrated(const char *name, const char *value, const char *file, void *arg)
{
	const pf_options *defaults = &mca_btl_exanest_component.defaults;
	const pf_option_info *info;
	uint64_t in_force;

	for (info = pf_option_table(); info->name; info++) {
		in_force = *(const uint64_t *)((const char *)defaults + info->offset);
		/* Else libpf has not used the file: it is another machine's. */
		if (!strcmp(info->name, name) && in_force == strtoull(value, NULL, 10))
			set_source(name, MCA_BASE_VAR_SOURCE_FILE, file);
	}
}

static void set_sources(void)
{
	const pf_option_info *info;
	char name[64], path[OPAL_PATH_MAX];

	for (info = pf_option_table(); info->name; info++) {
		environment_name(info->name, name, sizeof(name));
		if (getenv(name) && info != mca_btl_exanest_component.culprit)
			set_source(info->name, MCA_BASE_VAR_SOURCE_ENV, NULL);
	}
	if (mca_btl_exanest_component.defaults.calibrate &&
	    (size_t)pf_calibration_path(path, sizeof(path)) < sizeof(path))
		read_file(path, set_calibrated, NULL);
}

int mca_btl_exanest_register_parameters(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc;

	rc = register_options();
	if (rc < 0)
		return rc;
	component->automatic = false;
	(void)register_variable(
		"auto",
		"Take part also in jobs whose parameter btl does not name exanest; between hosts it "
		"then replaces tcp",
		MCA_BASE_VAR_TYPE_BOOL, NULL, 3, &component->automatic);
	register_descriptors("free_list_num", "Descriptors to allocate at the start", 0,
			     &component->free_list_num);
	register_descriptors(
		"free_list_max",
		"Most descriptors that may wait for room in the peers' rings (at least "
		"2; -1: no limit)",
		512, &component->free_list_max);
	register_descriptors("free_list_inc", "Descriptors to allocate when there is none", 8,
			     &component->free_list_inc);
	rc = register_module(&mca_btl_exanest_module.super);
	if (OPAL_SUCCESS != rc)
		return rc;
	register_size(
		"net_eager_limit",
		"As eager_limit, for messages between hosts: the receiver fetches longer ones, "
		"which takes a round trip more and saves two copies",
		NET_EAGER_LIMIT, &component->net_eager_limit);
	register_size("net_max_send_size", "As max_send_size, for messages between hosts",
		      NET_SEND_SIZE, &component->net_max_send_size);
	set_sources();
	component->idle_polls_set = source_of(find_variable("idle_polls"), NULL) !=
				    MCA_BASE_VAR_SOURCE_DEFAULT;
	return OPAL_SUCCESS;
}

/* ---- unknown names ---- */

/* The letters to insert, drop or replace to make one word of the other, or more than the most. */
static unsigned distance(const char *a, const char *b)
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

static void compare(struct nearest *nearest, const char *name)
{
	const unsigned letters = distance(nearest->wanted, name);

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

static void check_name(const char *name, const char *file)
{
	struct nearest nearest = { .wanted = name, .distance = MISSPELT_MOST + 1 };
	const int count = mca_base_var_get_count();
	const size_t prefix = strlen(PREFIX);
	const mca_base_var_t *variable;
	int i;

	for (i = 0; i < count; i++) {
		if (OPAL_SUCCESS == mca_base_var_get(i, &variable) &&
		    !strncmp(variable->mbv_full_name, PREFIX, prefix))
			compare(&nearest, variable->mbv_full_name + prefix);
	}
	report_unknown(PREFIX, name, file, nearest.name);
}

/* Names with PF_ may be another program's: only a misspelling is one of ours. */
static void check_environment_name(const char *wanted, const char *value, const char *file,
				   void *arg)
{
	struct nearest nearest = { .wanted = wanted, .distance = MISSPELT_MOST };
	const pf_option_info *info;
	const pf_text_info *text;
	char names[64][64];
	size_t count = 0, i;

	for (info = pf_option_table(); info->name && count < 64; info++, count++)
		environment_name(info->name, names[count], sizeof(names[count]));
	for (text = pf_text_table(); text->name && count < 64; text++, count++)
		environment_name(text->name, names[count], sizeof(names[count]));
	for (i = 0; i < count; i++)
		compare(&nearest, names[i] + 3);
	if (nearest.name && nearest.distance)
		report_unknown("PF_", wanted, file, nearest.name);
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

	if (OPAL_SUCCESS == mca_base_var_get(find_variable(name), &variable) &&
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

/* As Open MPI reads numbers, but to the end. A sign is for counts, where -1 is "no limit". */
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

/* One that another setting overrides is not looked at. */
static bool is_in_force(int index, const char *file)
{
	const char *from = NULL;
	const mca_base_var_source_t source = source_of(index, &from);

	if (!file)
		return source == MCA_BASE_VAR_SOURCE_ENV ||
		       source == MCA_BASE_VAR_SOURCE_COMMAND_LINE ||
		       source == MCA_BASE_VAR_SOURCE_DEFAULT;
	return (source == MCA_BASE_VAR_SOURCE_FILE || source == MCA_BASE_VAR_SOURCE_OVERRIDE ||
		source == MCA_BASE_VAR_SOURCE_DEFAULT) &&
	       (!from || !strcmp(from, file));
}

static void check_setting(const char *name, const char *value, const char *file, void *arg)
{
	const pf_option_info *info = find_option(name);
	const mca_base_var_t *variable;
	char permitted[256], full[160];
	const int index = find_variable(name);
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
	environment_name(info->name, name, sizeof(name));
	value = getenv(name);
	number = strtoull(value, NULL, 10);
	describe_permitted(info->name, is_number(value, false) ? &number : NULL, permitted,
			   sizeof(permitted));
	report_value(name, value, permitted, info->help);
	*valid = false;
}

/* Open MPI has no check of its own for most of these. */
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

/* "By name" is how users know the values; libpf has numbers. */
static void read_choices(void)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		if (info->names)
			*option_field(info) = (unsigned long long)*choice(info);
	}
}

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

bool mca_btl_exanest_check_parameters(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const mca_btl_base_module_t *btl = &mca_btl_exanest_module.super;
	bool valid = true;

	read_choices();
	read_environment(OPAL_MCA_PREFIX PREFIX, check_setting, &valid);
	read_files("param_files", check_file_setting, &valid);
	read_files("override_param_file", check_file_setting, &valid);
	check_environment(&valid);
	/* Open MPI has read what is no number as 0. */
	if (!valid)
		return false;
	check_size(PREFIX "eager_limit", btl->btl_eager_limit, &valid);
	check_size(PREFIX "rndv_eager_limit", btl->btl_rndv_eager_limit, &valid);
	check_size(PREFIX "max_send_size", btl->btl_max_send_size, &valid);
	check_size(PREFIX "net_eager_limit", component->net_eager_limit, &valid);
	check_size(PREFIX "net_max_send_size", component->net_max_send_size, &valid);
	if (component->options.transport == PF_TRANSPORT_DEVICE && !is_device_there())
		return false;
	return valid;
}

/* ---- values that libpf refuses ---- */

static bool is_refused(const pf_options *options)
{
	pf_context *context;
	const int status = pf_open(options, &context);

	if (status >= 0)
		pf_close(context);
	return status == PF_ERR_ARGUMENT;
}

/* libpf has the rules: find what it refuses by trying each value with the defaults for all others. */
void mca_btl_exanest_report_refused(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	char name[64], value[32], permitted[256];
	const pf_option_info *info;
	const pf_text_info *text;
	pf_options options;

	for (info = pf_option_table(); info->name; info++) {
		options = component->defaults;
		*(uint64_t *)((char *)&options + info->offset) = *option_field(info);
		if (!is_refused(&options))
			continue;
		snprintf(name, sizeof(name), PREFIX "%s", info->name);
		snprintf(value, sizeof(value), "%llu", *option_field(info));
		describe_permitted(info->name, option_field(info), permitted, sizeof(permitted));
		report_value(name, value, permitted, info->help);
	}
	for (text = pf_text_table(); text->name; text++) {
		const char *const *field =
			(const void *)((const char *)&component->options + text->offset);

		options = component->defaults;
		options.if_include = options.if_exclude = NULL;
		*(const char **)((char *)&options + text->offset) = *field;
		if (!is_refused(&options))
			continue;
		snprintf(name, sizeof(name), PREFIX "%s", text->name);
		report_value(
			name, *field,
			"names of interfaces and networks in CIDR notation, separated by commas",
			text->help);
	}
}
