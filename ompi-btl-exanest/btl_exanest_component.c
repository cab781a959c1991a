/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MCA component: parameters, opening libpf, progress.
 */
#include "btl_exanest.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/util/show_help.h"

#include "btl_exanest_frag.h"

#define NET_EAGER_LIMIT (32 * 1024 + MCA_BTL_EXANEST_HEADER_ROOM)
#define NET_SEND_SIZE (64 * 1024)

static int component_register(void);
static int component_open(void);
static int component_close(void);
static mca_btl_base_module_t **component_init(int *num_btls, bool enable_progress_threads,
					      bool enable_mpi_threads);
static int component_progress(void);

mca_btl_exanest_component_t mca_btl_exanest_component = {
	.super = {
		.btl_version = {
			MCA_BTL_DEFAULT_VERSION("exanest"),
			.mca_open_component = component_open,
			.mca_close_component = component_close,
			.mca_register_component_params = component_register,
		},
		.btl_data = {
			.param_field = MCA_BASE_METADATA_PARAM_NONE,
		},
		.btl_init = component_init,
		.btl_progress = component_progress,
	},
};

static unsigned long long *option_field(const pf_option_info *info)
{
	_Static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "an option is a uint64_t");

	return (void *)((char *)&mca_btl_exanest_component.options + info->offset);
}

/*
 * Options that Open MPI has its own parameter or its own answer for, and
 * calibrate, which has done its work before there are parameters.
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
	rc = mca_base_component_var_register(
		&mca_btl_exanest_component.super.btl_version, info->name, info->help,
		MCA_BASE_VAR_TYPE_INT, names, 0, 0,
		(mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + info->level - 1),
		MCA_BASE_VAR_SCOPE_LOCAL, choice(info));
	OBJ_RELEASE(names);
	return rc;
}

static void read_choices(void)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		if (info->names)
			*option_field(info) = (unsigned long long)*choice(info);
	}
}

static int register_option(const pf_option_info *info, const char *help)
{
	if (info->names)
		return register_choice(info);
	return mca_base_component_var_register(
		&mca_btl_exanest_component.super.btl_version, info->name, help,
		MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, 0, 0,
		(mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + info->level - 1),
		MCA_BASE_VAR_SCOPE_LOCAL, option_field(info));
}

static int register_options(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const pf_option_info *info;
	const pf_text_info *text;
	int index;

	component->culprit = NULL;
	(void)pf_options_init(&component->options, &component->culprit);
	for (info = pf_option_table(); info->name; info++) {
		char help[512];

		if (is_not_parameter(info))
			continue;
		if (info->offset != offsetof(pf_options, idle_polls)) {
			index = register_option(info, info->help);
		} else {
			snprintf(help, sizeof(help),
				 "%s. If this is left alone, %d applies when Open MPI yields the "
				 "processor while idle (mpi_yield_when_idle, which mpirun sets "
				 "for more processes than cores)",
				 info->help, PF_IDLE_POLLS_SHARED_CORE);
			index = register_option(info, help);
			component->idle_polls_index = index;
		}
		if (index < 0)
			return index;
	}
	for (text = pf_text_table(); text->name; text++) {
		index = mca_base_component_var_register(
			&component->super.btl_version, text->name, text->help,
			MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0,
			(mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + text->level - 1),
			MCA_BASE_VAR_SCOPE_LOCAL, (char *)&component->options + text->offset);
		if (index < 0)
			return index;
	}
	return OPAL_SUCCESS;
}

static int register_free_list(const char *name, const char *help, int value, int *storage)
{
	*storage = value;
	return mca_base_component_var_register(&mca_btl_exanest_component.super.btl_version, name,
					       help, MCA_BASE_VAR_TYPE_INT, NULL, 0, 0,
					       OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_LOCAL, storage);
}

static int register_size(const char *name, const char *help, size_t value, size_t *storage)
{
	*storage = value;
	return mca_base_component_var_register(&mca_btl_exanest_component.super.btl_version, name,
					       help, MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0,
					       OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_LOCAL, storage);
}

static int register_net_limits(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc;

	rc = register_size("net_eager_limit",
			   "As eager_limit, for messages between hosts: what is longer is fetched "
			   "by its receiver, which takes a round trip more and saves two copies",
			   NET_EAGER_LIMIT, &component->net_eager_limit);
	if (rc < 0)
		return rc;
	return register_size("net_max_send_size", "As max_send_size, for messages between hosts",
			     NET_SEND_SIZE, &component->net_max_send_size);
}

/*
 * The help file is installed beside the component, which is not always where
 * Open MPI keeps its own.
 */
static void find_help_file(void)
{
	static bool found;
	char path[OPAL_PATH_MAX];
	char *slash;
	Dl_info self;

	if (found || !dladdr(&mca_btl_exanest_component, &self) || !self.dli_fname)
		return;
	snprintf(path, sizeof(path), "%s", self.dli_fname);
	slash = strrchr(path, '/');
	if (!slash)
		return;
	*slash = '\0';
	(void)opal_show_help_add_dir(path);
	found = true;
}

static int component_register(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_module_t *btl = &mca_btl_exanest_module.super;
	int rc;

	(void)mca_base_var_group_component_register(&component->super.btl_version,
						    "Fault-tolerant DMA in user space (libpf)");
	find_help_file();
	rc = register_options();
	if (rc < 0)
		return rc;

	register_free_list("free_list_num", "Descriptors to allocate at the start", 0,
			   &component->free_list_num);
	register_free_list(
		"free_list_max",
		"Most descriptors that may wait for room in the peers' rings (at least 2; "
		"-1: no limit)",
		512, &component->free_list_max);
	register_free_list("free_list_inc", "Descriptors to allocate when there is none", 8,
			   &component->free_list_inc);

	component->automatic = false;
	(void)mca_base_component_var_register(
		&component->super.btl_version, "auto",
		"Take part also in jobs whose parameter btl does not name exanest; between hosts it "
		"then replaces tcp",
		MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_ALL_EQ,
		&component->automatic);

	/* Below self and vader (sm). */
	btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH - 1;
	btl->btl_eager_limit = component->options.eager_limit + MCA_BTL_EXANEST_HEADER_ROOM;
	/* What cannot be fetched by the receiver (it is not contiguous) goes in such pieces. */
	btl->btl_max_send_size = 32 * 1024;
	btl->btl_rndv_eager_limit = btl->btl_eager_limit < btl->btl_max_send_size ?
					    btl->btl_eager_limit :
					    btl->btl_max_send_size;
	btl->btl_rdma_pipeline_send_length = btl->btl_max_send_size;
	btl->btl_rdma_pipeline_frag_size = SIZE_MAX;
	/* The pipeline hides the cost of registration, and there is none. */
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

	rc = mca_btl_base_param_register(&component->super.btl_version, btl);
	if (OPAL_SUCCESS != rc)
		return rc;
	rc = register_net_limits();
	if (rc < 0)
		return rc;
	return mca_btl_exanest_register_pvars();
}

static int component_open(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	OBJ_CONSTRUCT(&component->control_frags, opal_free_list_t);
	OBJ_CONSTRUCT(&component->packed_frags, opal_free_list_t);
	OBJ_CONSTRUCT(&component->operations, opal_free_list_t);
	OBJ_CONSTRUCT(&component->lock, opal_mutex_t);
	OBJ_CONSTRUCT(&component->waiting, opal_list_t);
	OBJ_CONSTRUCT(&component->endpoints, opal_hash_table_t);
	component->waiting_count = 0;
	return opal_hash_table_init(&component->endpoints, 64);
}

static int component_close(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	OBJ_DESTRUCT(&component->endpoints);
	OBJ_DESTRUCT(&component->waiting);
	OBJ_DESTRUCT(&component->lock);
	OBJ_DESTRUCT(&component->operations);
	OBJ_DESTRUCT(&component->packed_frags);
	OBJ_DESTRUCT(&component->control_frags);
	return OPAL_SUCCESS;
}

/*
 * Open MPI opens a component that the parameter btl names, or any if btl is
 * empty or only excludes ("^tcp"). A list of names that has let us in names us.
 */
static bool is_selected(void)
{
	const char *selection = opal_btl_base_framework.framework_selection;

	if (selection && selection[0] && selection[0] != '^')
		return true;
	return mca_btl_exanest_component.automatic;
}

static bool is_set_by_user(int index)
{
	mca_base_var_source_t source;

	return OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL) &&
	       MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

/*
 * Open MPI tells opal_progress to yield only after the BTLs are up, but its
 * parameter, which mpirun sets on oversubscribed nodes, is registered before.
 */
static bool yields_when_idle(void)
{
	const int index = mca_base_var_find("ompi", "mpi", NULL, "yield_when_idle");
	const bool *value = NULL;

	if (index < 0 || OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL))
		return false;
	return value && *value;
}

static void describe_allowed(const pf_option_info *info, char *text, size_t size)
{
	const char *const *name;
	size_t used = 0;

	if (!info->names) {
		snprintf(text, size, "%llu to %llu, with an optional suffix K, M or G",
			 (unsigned long long)info->minimum, (unsigned long long)info->maximum);
		return;
	}
	text[0] = '\0';
	for (name = info->names; *name && used < size; name++)
		used += snprintf(text + used, size - used, "%s%s", used ? ", " : "", *name);
}

/* Complain about what libpf would refuse, in terms of what the user typed. */
static bool options_valid(void)
{
	const mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const pf_option_info *info = component->culprit;
	char name[64], allowed[128];
	size_t i;

	if (info) {
		snprintf(name, sizeof(name), "PF_%s", info->name);
		for (i = 0; name[i]; i++)
			name[i] = (char)toupper((unsigned char)name[i]);
		describe_allowed(info, allowed, sizeof(allowed));
		opal_show_help(MCA_BTL_EXANEST_HELP, "bad environment", true,
			       opal_process_info.nodename, name, getenv(name), allowed, info->help);
		return false;
	}
	for (info = pf_option_table(); info->name; info++) {
		const unsigned long long value = *option_field(info);

		if (is_not_parameter(info) || (value >= info->minimum && value <= info->maximum))
			continue;
		opal_show_help(MCA_BTL_EXANEST_HELP, "bad parameter", true,
			       opal_process_info.nodename, info->name, value,
			       (unsigned long long)info->minimum, (unsigned long long)info->maximum,
			       info->help);
		return false;
	}
	return true;
}

/* With one descriptor ob1 cannot send what it has put off while it completes another. */
static void correct_free_lists(mca_btl_exanest_component_t *component)
{
	if (component->free_list_num < 0)
		component->free_list_num = 0;
	if (component->free_list_max == 0 || component->free_list_max == 1)
		component->free_list_max = 2;
	if (component->free_list_inc < 1)
		component->free_list_inc = 1;
}

static void lower(size_t *limit, size_t most, const char *name)
{
	if (*limit <= most)
		return;
	opal_output_verbose(MCA_BASE_VERBOSE_INFO, opal_btl_base_framework.framework_output,
			    "btl:exanest: btl_exanest_%s lowered from %zu to %zu", name, *limit,
			    most);
	*limit = most;
}

static void limit(mca_btl_base_module_t *btl, size_t most)
{
	lower(&btl->btl_eager_limit, most, "eager_limit");
	lower(&btl->btl_max_send_size, most, "max_send_size");
	lower(&btl->btl_rndv_eager_limit, btl->btl_eager_limit, "rndv_eager_limit");
}

/* All but the limits, and what ob1 and osc/rdma choose by, is as on one host. */
static void init_net_module(void)
{
	const mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_module_t *btl = &mca_btl_exanest_net_module.super;

	*btl = mca_btl_exanest_module.super;
	btl->btl_eager_limit = component->net_eager_limit;
	btl->btl_max_send_size = component->net_max_send_size;
	btl->btl_rndv_eager_limit = btl->btl_eager_limit < btl->btl_max_send_size ?
					    btl->btl_eager_limit :
					    btl->btl_max_send_size;
	btl->btl_rdma_pipeline_send_length = btl->btl_max_send_size;
	/* For a process that both reach the other one is better. */
	if (btl->btl_exclusivity)
		btl->btl_exclusivity--;
	btl->btl_latency *= 4;
	btl->btl_bandwidth /= 4;
}

/* What the launcher gives to every process of a job for its transports, as mtl/psm2 has it. */
static void join_job(pf_context *context)
{
	const char *key = getenv(OPAL_MCA_PREFIX "orte_precondition_transports");

	if (key)
		pf_join(context, key, strlen(key));
}

static int open_context(bool threads)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	pf_attributes attributes;
	int status;

	component->options.threads = threads;
	if (!is_set_by_user(component->idle_polls_index) && !component->options.idle_polls &&
	    yields_when_idle())
		component->options.idle_polls = PF_IDLE_POLLS_SHARED_CORE;

	status = pf_open(&component->options, &component->context);
	if (status < 0) {
		opal_show_help(MCA_BTL_EXANEST_HELP, "cannot open", true,
			       opal_process_info.nodename, pf_strerror(status),
			       status == PF_ERR_SYSTEM ? strerror(errno) : "none");
		return mca_btl_exanest_error(status);
	}
	join_job(component->context);
	pf_set_receive(component->context, mca_btl_exanest_receive, NULL);
	pf_set_error(component->context, mca_btl_exanest_peer_error, NULL);

	pf_query(component->context, &attributes);
	mca_btl_exanest_init_registration(&mca_btl_exanest_module.super);
	init_net_module();
	limit(&mca_btl_exanest_module.super, attributes.send_max);
	limit(&mca_btl_exanest_net_module.super, attributes.send_max);
	return OPAL_SUCCESS;
}

static int publish_address(void)
{
	char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	int rc;

	rc = mca_btl_exanest_error(pf_address(mca_btl_exanest_component.context, address, &length));
	if (OPAL_SUCCESS == rc)
		OPAL_MODEX_SEND(rc, MCA_BTL_EXANEST_MODEX_SCOPE,
				&mca_btl_exanest_component.super.btl_version, address, length);
	return rc;
}

static mca_btl_base_module_t **component_init(int *num_btls, bool enable_progress_threads,
					      bool enable_mpi_threads)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_module_t **btls;

	*num_btls = 0;
	if (!is_selected())
		return NULL;
	read_choices();
	if (!options_valid())
		return NULL;
	btls = malloc(2 * sizeof(*btls));
	if (NULL == btls)
		return NULL;
	if (OPAL_SUCCESS != open_context(enable_mpi_threads || opal_using_threads()))
		goto free_btls;
	correct_free_lists(component);
	if (OPAL_SUCCESS != mca_btl_exanest_init_frags())
		goto close_context;
	if (OPAL_SUCCESS !=
	    opal_free_list_init(&component->operations, sizeof(mca_btl_exanest_operation_t),
				opal_cache_line_size, OBJ_CLASS(mca_btl_exanest_operation_t), 0, 0,
				component->free_list_num, -1, component->free_list_inc, NULL, 0,
				NULL, NULL, NULL))
		goto close_context;
	if (OPAL_SUCCESS != publish_address())
		goto close_context;
	btls[0] = &mca_btl_exanest_module.super;
	btls[1] = &mca_btl_exanest_net_module.super;
	component->modules = *num_btls = 2;
	return btls;

close_context:
	pf_close(component->context);
	component->context = NULL;
free_btls:
	free(btls);
	return NULL;
}

static int component_progress(void)
{
	int count = pf_progress(mca_btl_exanest_component.context);

	if (OPAL_UNLIKELY(mca_btl_exanest_component.waiting_count))
		count += mca_btl_exanest_send_pending();
	return count;
}
