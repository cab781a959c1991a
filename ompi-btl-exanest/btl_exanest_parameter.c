/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MCA parameters, made from libpf's tables of options, and the sources of the values.
 */
#include "btl_exanest_parameter.h"

#include <string.h>

#include "btl_exanest_comparison.h"

/*
 * Most peers to connect in MPI_Init. A peer takes 7 descriptors and some 32 KiB; vader
 * maps all peers of a host in MPI_Init.
 */
#define CONNECT_MOST 8
/*
 * Most operations in flight. An operation takes 400 to 500 bytes until complete, and more
 * at a time bring nothing: 200,000 MPI_Put of 8 bytes through the ring take 0.6 s with
 * the limit and without (and 81 MiB without).
 */
#define OPERATIONS_MAX 4096
/*
 * Bytes of the longest message sent at once between hosts. An exchange of 128 KiB takes
 * 47 us when both sides send, 57 when both fetch; a stream of messages of 128 KiB has 3.4
 * GB/s when sent, 5 when fetched. An exchange of 256 KiB takes longer when both sides
 * send.
 */
#define NET_EAGER_LIMIT (128 * 1024)
/* Bytes of a piece between hosts: with headers less than the 64 KiB of a single system call. */
#define NET_SEND_SIZE (60 * 1024)
/* Above tcp (100) and below hardware (MCA_BTL_EXCLUSIVITY_DEFAULT, 1024, or more). */
#define NET_EXCLUSIVITY (MCA_BTL_EXCLUSIVITY_LOW + 200)
/*
 * Factor of latency and bandwidth between hosts to the values of the own host, for
 * parameters that are not set: ob1 chooses by latency and bandwidth.
 */
#define NET_SLOWER 4

/*
 * Is the option no parameter? Open MPI has a parameter or an answer of its own for
 * eager_limit and threads; wake follows from idle_polls; calibrate has taken effect before
 * there are parameters; windows of MPI may be any memory, hence no expose.
 */
static bool option_is_hidden(const pf_option_info *info)
{
	return info->offset == offsetof(pf_options, eager_limit) ||
	       info->offset == offsetof(pf_options, threads) ||
	       info->offset == offsetof(pf_options, wake) ||
	       info->offset == offsetof(pf_options, calibrate) ||
	       info->offset == offsetof(pf_options, expose);
}

/*
 * Is the option a parameter of yes or no? Open MPI takes "true", "no" and further words
 * for a switch, too.
 */
static bool option_is_switch(const pf_option_info *info)
{
	return !info->names && info->minimum == 0 && info->maximum == 1;
}

static mca_base_var_storage_t *option_choice(const pf_option_info *info)
{
	return &mca_btl_exanest_component.choices[info->offset / sizeof(uint64_t)];
}

static int variable_register(const char *name, const char *help, mca_base_var_type_t type,
			     mca_base_var_enum_t *names, int level, void *storage)
{
	int index = mca_base_component_var_register(
		&mca_btl_exanest_component.super.btl_version, name, help, type, names, 0,
		(mca_base_var_flag_t)0, (mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + level - 1),
		MCA_BASE_VAR_SCOPE_LOCAL, storage);

	/* A wrong value: Open MPI has told the user, and the parameter has the default. */
	return index == OPAL_ERR_VALUE_OUT_OF_BOUNDS ? OPAL_SUCCESS : index;
}

static int choice_register(const pf_option_info *info)
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
	option_choice(info)->intval = (int)*mca_btl_exanest_option(info);
	rc = variable_register(info->name, info->help, MCA_BASE_VAR_TYPE_INT, names, info->level,
			       &option_choice(info)->intval);
	OBJ_RELEASE(names);
	return rc;
}

void mca_btl_exanest_read_choices(void)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		if (info->names)
			*mca_btl_exanest_option(info) =
				(unsigned long long)option_choice(info)->intval;
		else if (option_is_switch(info) && !option_is_hidden(info))
			*mca_btl_exanest_option(info) = option_choice(info)->boolval;
	}
}

static int option_register(const pf_option_info *info)
{
	if (info->names)
		return choice_register(info);
	if (option_is_switch(info)) {
		option_choice(info)->boolval = *mca_btl_exanest_option(info) != 0;
		return variable_register(info->name, info->help, MCA_BASE_VAR_TYPE_BOOL, NULL,
					 info->level, &option_choice(info)->boolval);
	}
	return variable_register(info->name, info->help, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
				 info->level, mca_btl_exanest_option(info));
}

static int options_register(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const pf_option_info *info;
	const pf_text_info *text;
	int rc;

	(void)pf_options_default(&component->options, sizeof(component->options));
	component->options.operations_max = OPERATIONS_MAX;
	component->options.expose = 0;
	component->defaults = component->options;
	for (info = pf_option_table(); info->name; info++) {
		rc = option_is_hidden(info) ? OPAL_SUCCESS : option_register(info);
		if (rc < 0)
			return rc;
	}
	for (text = pf_text_table(); text->name; text++) {
		rc = variable_register(text->name, text->help, MCA_BASE_VAR_TYPE_STRING, NULL,
				       text->level, (char *)&component->options + text->offset);
		if (rc < 0)
			return rc;
	}
	return OPAL_SUCCESS;
}

static void descriptors_register(const char *name, const char *help, int value, int *storage)
{
	*storage = value;
	(void)variable_register(name, help, MCA_BASE_VAR_TYPE_INT, NULL, 9, storage);
}

static void size_register(const char *name, const char *help, int level, size_t value,
			  size_t *storage)
{
	*storage = value;
	(void)variable_register(name, help, MCA_BASE_VAR_TYPE_SIZE_T, NULL, level, storage);
}

static void unsigned_register(const char *name, const char *help, int level, unsigned value,
			      unsigned *storage)
{
	*storage = value;
	(void)variable_register(name, help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, level, storage);
}

static void idle_register(void)
{
	char help[512];
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	component->idle_polls = 0;
	component->idle_sleep = 100000;
	snprintf(
		help, sizeof(help),
		"Number of calls of the progress function in a row that find nothing to do, without "
		"computation between them, before it sleeps until a message arrives; 0: never. If it "
		"is not set, %d applies when Open MPI yields the processor while idle "
		"(mpi_yield_when_idle, which mpirun sets for more processes than cores)",
		MCA_BTL_EXANEST_IDLE_POLLS);
	(void)variable_register("idle_polls", help, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, 5,
				&component->idle_polls);
	(void)variable_register(
		"idle_sleep",
		"Microseconds that one such sleep lasts, at most. If it is not set, 300 for each "
		"process of the job on the host, divided by the processors, but 1000 to 9500",
		MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, 6, &component->idle_sleep);
	component->idle_polls_set = mca_btl_exanest_is_set("idle_polls");
}

/*
 * Register the limit without the room for headers. Open MPI registers eager_limit again,
 * with another text and with the room. The first text of a parameter stays, and so does
 * the last place of the value: the function is called before and after Open MPI's.
 */
static void eager_limit_register(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	size_register(
		"eager_limit",
		"Bytes of the longest message between processes of this host that is sent at once, "
		"without its header; the receiver fetches longer ones if single copy is permitted. "
		"One that comes before its "
		"receive is posted is buffered whole by the receiver, in memory that Open MPI "
		"keeps: 2000 messages of 60000 bytes take 125 MB, with 4096 here 1 MB",
		4, component->options.eager_limit, &component->eager_limit);
}

static size_t size_smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Describe the host module to Open MPI, and register the properties that the user may change. */
static int module_register(mca_btl_base_module_t *btl)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc;

	/* Below self and vader (sm). */
	btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH - 1;
	eager_limit_register();
	btl->btl_eager_limit = component->eager_limit;
	/*
	 * Bytes of a piece of a message that the receiver does not fetch: a buffer is not
	 * contiguous, or the way to the receiver is the ring.
	 */
	btl->btl_max_send_size = 32 * 1024;
	btl->btl_rndv_eager_limit = size_smaller(mca_btl_exanest_with_header(btl->btl_eager_limit),
						 btl->btl_max_send_size);
	btl->btl_rdma_pipeline_send_length = btl->btl_max_send_size;
	btl->btl_rdma_pipeline_frag_size = SIZE_MAX;
	/* A pipeline would hide the cost of registration, but nothing is registered. */
	btl->btl_min_rdma_pipeline_size = SIZE_MAX;
	btl->btl_put_limit = SIZE_MAX;
	btl->btl_get_limit = SIZE_MAX;
	btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA |
			 MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS |
			 MCA_BTL_FLAGS_RDMA_FLUSH | MCA_BTL_EXANEST_FLAGS;
	btl->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
				MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
				MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
				MCA_BTL_ATOMIC_SUPPORTS_32BIT | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
	btl->btl_latency = 1;       /* microseconds */
	btl->btl_bandwidth = 40000; /* Mbit/s */
	rc = mca_btl_base_param_register(&component->super.btl_version, btl);
	eager_limit_register();
	return rc;
}

/* Register Open MPI's parameters of a module for the module between hosts. */
static void net_module_register(const mca_btl_base_module_t *host)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	unsigned_register(
		"net_exclusivity",
		"As exclusivity, for messages between hosts: of the BTLs that reach a process the "
		"highest carries its messages (tcp has 100, hardware 1024 or more)",
		7, NET_EXCLUSIVITY, &component->net_exclusivity);
	size_register(
		"net_eager_limit",
		"As eager_limit, for messages between hosts: to fetch takes a round trip more and "
		"saves two copies",
		4, NET_EAGER_LIMIT, &component->net_eager_limit);
	size_register("net_max_send_size", "As max_send_size, for messages between hosts", 4,
		      NET_SEND_SIZE, &component->net_max_send_size);
	size_register("net_rndv_eager_limit", "As rndv_eager_limit, for messages between hosts", 4,
		      size_smaller(mca_btl_exanest_with_header(component->net_eager_limit),
				   component->net_max_send_size),
		      &component->net_rndv_eager_limit);
	unsigned_register("net_latency", "Microseconds, as latency, for messages between hosts", 5,
			  host->btl_latency * NET_SLOWER, &component->net_latency);
	unsigned_register("net_bandwidth", "Mbit/s, as bandwidth, for messages between hosts", 5,
			  host->btl_bandwidth / NET_SLOWER, &component->net_bandwidth);
}

/* ---- where defaults come from, for ompi_info ---- */

int mca_btl_exanest_find_variable(const char *name)
{
	return mca_base_var_find("opal", "btl", "exanest", name);
}

bool mca_btl_exanest_is_set(const char *name)
{
	mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
	const int index = mca_btl_exanest_find_variable(name);

	if (index >= 0)
		(void)mca_base_var_get_value(index, NULL, &source, NULL);
	return source != MCA_BASE_VAR_SOURCE_DEFAULT;
}

/*
 * Name the file that a value comes from. Open MPI has the value already, and takes the
 * value for a built-in default.
 */
static void variable_set_file(const char *option, const char *file)
{
	const int index = mca_btl_exanest_find_variable(option);
	const mca_base_var_t *variable;
	const void *value = NULL;
	bool settable;

	if (mca_btl_exanest_is_set(option) || index < 0 ||
	    OPAL_SUCCESS != mca_base_var_get(index, &variable) ||
	    OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL))
		return;
	settable = variable->mbv_flags & MCA_BASE_VAR_FLAG_SETTABLE;
	(void)mca_base_var_set_flag(index, MCA_BASE_VAR_FLAG_SETTABLE, true);
	(void)mca_base_var_set_value(index, value, 0, MCA_BASE_VAR_SOURCE_FILE, file);
	(void)mca_base_var_set_flag(index, MCA_BASE_VAR_FLAG_SETTABLE, settable);
}

static void variable_set_calibrated(const char *name, const char *value, const char *file)
{
	const char *defaults = (const char *)&mca_btl_exanest_component.defaults;
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		/*
		 * Another value: libpf has not used the file, because the file is another
		 * machine's.
		 */
		if (!strcmp(info->name, name) &&
		    *(const uint64_t *)(defaults + info->offset) == strtoull(value, NULL, 10))
			variable_set_file(name, file);
	}
}

static void variables_set_sources(void)
{
	char path[OPAL_PATH_MAX];

	if (mca_btl_exanest_component.defaults.calibrate &&
	    (size_t)pf_calibration_path(path, sizeof(path)) < sizeof(path))
		mca_btl_exanest_read_file(path, variable_set_calibrated);
}

int mca_btl_exanest_register_parameters(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc = options_register();

	if (rc >= 0)
		rc = mca_btl_exanest_comparison_register();
	if (rc < 0)
		return rc;
	component->automatic = false;
	(void)variable_register(
		"auto",
		"Take part also in jobs whose parameter btl does not name exanest; between hosts it "
		"then replaces tcp",
		MCA_BASE_VAR_TYPE_BOOL, NULL, 3, &component->automatic);
	descriptors_register("free_list_num", "Descriptors to allocate at the start", 0,
			     &component->free_list_num);
	descriptors_register(
		"free_list_max",
		"Most descriptors that may wait for room in the peers' rings (at least "
		"2; -1: no limit)",
		512, &component->free_list_max);
	descriptors_register("free_list_inc", "Descriptors to allocate when there is none", 8,
			     &component->free_list_inc);
	rc = module_register(&mca_btl_exanest_module.super);
	if (OPAL_SUCCESS != rc)
		return rc;
	net_module_register(&mca_btl_exanest_module.super);
	size_register(
		"connect_most",
		"Peers of this host that are connected in MPI_Init, if there are no more; else each is when "
		"it is first used, for which the first message waits",
		9, CONNECT_MOST, &component->connect_most);
	idle_register();
	variables_set_sources();
	return OPAL_SUCCESS;
}
