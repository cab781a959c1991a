/* SPDX-License-Identifier: BSD-3-Clause */
/* The MCA component: selection by a job, opening of libpf, progress. */
#include "btl_exanest.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "opal/mca/btl/base/btl_base_error.h"

#include "btl_exanest_comparison.h"
#include "btl_exanest_frag.h"
#include "btl_exanest_parameter.h"

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

/* Entry by which static builds of Open MPI 6.0 find a component. */
#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(opal, btl, exanest)
#endif

static int component_register(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc;

	(void)mca_base_var_group_component_register(
		&component->super.btl_version,
		"Page-fault tolerant transfers between processes and hosts (libpf)");
	mca_btl_exanest_find_help();
	rc = mca_btl_exanest_register_parameters();
	return OPAL_SUCCESS == rc ? mca_btl_exanest_register_pvars() : rc;
}

static int component_open(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	memset(&component->reported, 0, sizeof(component->reported));
	OBJ_CONSTRUCT(&component->control_frags, opal_free_list_t);
	OBJ_CONSTRUCT(&component->header_frags, opal_free_list_t);
	OBJ_CONSTRUCT(&component->packed_frags, opal_free_list_t);
	OBJ_CONSTRUCT(&component->operations, opal_free_list_t);
	OBJ_CONSTRUCT(&component->lock, opal_mutex_t);
	OBJ_CONSTRUCT(&component->waiting, opal_list_t);
	OBJ_CONSTRUCT(&component->retired, opal_list_t);
	OBJ_CONSTRUCT(&component->endpoints, opal_hash_table_t);
	return opal_hash_table_init(&component->endpoints, 64);
}

static int component_close(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	OBJ_DESTRUCT(&component->endpoints);
	OBJ_DESTRUCT(&component->retired);
	OBJ_DESTRUCT(&component->waiting);
	OBJ_DESTRUCT(&component->lock);
	OBJ_DESTRUCT(&component->operations);
	OBJ_DESTRUCT(&component->packed_frags);
	OBJ_DESTRUCT(&component->header_frags);
	OBJ_DESTRUCT(&component->control_frags);
	return OPAL_SUCCESS;
}

/*
 * Does the job use exanest? Open MPI opens a component that the parameter btl names, or
 * any component if btl is empty or only excludes ("^tcp"). A list of names that has let
 * exanest in names exanest.
 */
static bool component_is_selected(void)
{
	const char *selection = opal_btl_base_framework.framework_selection;

	if (selection && selection[0] && selection[0] != '^')
		return true;
	return mca_btl_exanest_component.automatic;
}

/*
 * Does Open MPI yield the processor while idle? opal_progress learns of the parameter
 * only after the initialization of the BTLs. The parameter, which mpirun sets on
 * oversubscribed nodes, is registered before.
 */
static bool opal_yields_when_idle(void)
{
	const int index = mca_base_var_find("ompi", "mpi", NULL, "yield_when_idle");
	const bool *value = NULL;

	if (index < 0 || OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL))
		return false;
	return value && *value;
}

/*
 * Microseconds between two wake-ups of the idle processes of a processor: 6 % of the
 * processor, at the 20 us of a wake-up in a virtual machine (benchmarks/promises,
 * idle-ranks).
 */
#define SLEEP_PER_PROCESS 300
/* Bounds of the sleep of a process, microseconds. */
#define SLEEP_LEAST 1000
#define SLEEP_MOST 9500

/*
 * Return the longest sleep of a process, microseconds, by the number of processes of the
 * job that share a processor.
 */
static uint64_t sleep_longest(void)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t processors = online > 0 ? (uint64_t)online : 1, sleep;
	cpu_set_t permitted;

	if (!sched_getaffinity(0, sizeof(permitted), &permitted) && CPU_COUNT(&permitted) > 0)
		processors = (uint64_t)CPU_COUNT(&permitted);
	sleep = SLEEP_PER_PROCESS * ((uint64_t)opal_process_info.num_local_peers + 1) / processors;
	return sleep < SLEEP_LEAST ? SLEEP_LEAST : sleep < SLEEP_MOST ? sleep : SLEEP_MOST;
}

/*
 * Correct the sizes of the free lists. ob1 sends a postponed message while completing
 * another message: two descriptors are in use.
 */
static void free_lists_correct(mca_btl_exanest_component_t *component)
{
	if (component->free_list_num < 0)
		component->free_list_num = 0;
	if (component->free_list_max == 0 || component->free_list_max == 1)
		component->free_list_max = 2;
	if (component->free_list_inc < 1)
		component->free_list_inc = 1;
}

static void limit_lower(size_t *limit, size_t most, const char *name)
{
	if (*limit <= most)
		return;
	opal_output_verbose(MCA_BASE_VERBOSE_INFO, opal_btl_base_framework.framework_output,
			    "btl:exanest: btl_exanest_%s lowered from %zu to %zu", name, *limit,
			    most);
	*limit = most;
}

static void module_limit(mca_btl_base_module_t *btl, size_t most)
{
	limit_lower(&btl->btl_eager_limit, most, "eager_limit");
	limit_lower(&btl->btl_max_send_size, most, "max_send_size");
	limit_lower(&btl->btl_rndv_eager_limit, btl->btl_eager_limit, "rndv_eager_limit");
}

/*
 * Make the module between hosts: a copy of the host module, but for the limits and for
 * the values by which ob1 and osc/rdma choose.
 */
static void net_module_init(void)
{
	const mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_module_t *btl = &mca_btl_exanest_net_module.super;

	*btl = mca_btl_exanest_module.super;
	btl->btl_register_mem = NULL;
	btl->btl_deregister_mem = NULL;
	btl->btl_eager_limit = mca_btl_exanest_with_header(component->net_eager_limit);
	btl->btl_max_send_size = component->net_max_send_size;
	btl->btl_rndv_eager_limit = component->net_rndv_eager_limit;
	btl->btl_rdma_pipeline_send_length = btl->btl_max_send_size;
	btl->btl_exclusivity = component->net_exclusivity;
	btl->btl_latency = component->net_latency;
	btl->btl_bandwidth = component->net_bandwidth;
}

static void component_report_not_open(int status, int error)
{
	const bool system = status == PF_ERR_SYSTEM && error;
	pf_capability identity;
	const bool unknown = pf_capabilities(&identity, sizeof(identity), 1) == 1 &&
			     !identity.available;

	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "cannot start",
		"%s on %s (pid %d) cannot use BTL exanest: %s%s%s%s%s\n"
		"\n"
		"Run pf_info on this host to see what is missing; ulimit -n, -u and -v show the\n"
		"limits of this process. If the parameter btl lists no other transport that reaches\n"
		"the other processes, MPI_Init fails.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), pf_strerror(status), system ? ": " : "",
		system ? strerror(error) : "", unknown ? ": " : "", unknown ? identity.detail : "");
}

void mca_btl_exanest_allow_threads(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	opal_mutex_lock(&component->lock);
	if (!atomic_load_explicit(&component->threads, memory_order_relaxed)) {
		pf_allow_threads(component->context);
		atomic_store_explicit(&component->threads, true, memory_order_release);
	}
	opal_mutex_unlock(&component->lock);
}

static int component_open_context(bool threads)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const pf_callbacks callbacks = {
		.size = sizeof(callbacks),
		.receive = mca_btl_exanest_receive,
		.receive_pieces = mca_btl_exanest_receive_pieces,
		.peer_event = mca_btl_exanest_peer_event,
		.log = mca_btl_exanest_log,
		.log_level = opal_output_get_verbosity(opal_btl_base_framework.framework_output) >=
					     MCA_BASE_VERBOSE_INFO ?
				     PF_LOG_INFO :
				     PF_LOG_WARNING,
		.room = mca_btl_exanest_room,
	};
	const opal_process_name_t name = OPAL_PROC_MY_NAME;
	pf_attributes attributes;
	int status;

	/* For mca_btl_exanest_find_sender() of the peers. */
	component->options.data = &name;
	component->options.data_length = sizeof(name);
	component->options.threads = threads;
	atomic_store_explicit(&component->threads, threads, memory_order_relaxed);
	if (!component->idle_polls_set && opal_yields_when_idle())
		component->idle_polls = MCA_BTL_EXANEST_IDLE_POLLS;
	component->options.wake = component->idle_polls != 0;
	component->yields = component->idle_polls && opal_yields_when_idle();
	if (!mca_btl_exanest_is_set("idle_sleep"))
		component->idle_sleep = sleep_longest();
	mca_btl_exanest_idle_init(&component->idle);

	status = pf_open(&component->options, &callbacks, &component->context);
	component->options.data = NULL;
	component->options.data_length = 0;
	if (status == PF_ERR_ARGUMENT)
		mca_btl_exanest_report_refused();
	else if (status < 0)
		component_report_not_open(status, errno);
	if (status < 0)
		return mca_btl_exanest_error(status);
	mca_btl_exanest_join_job(component->context);

	pf_query(component->context, &attributes, sizeof(attributes));
	mca_btl_exanest_module.super.btl_eager_limit =
		mca_btl_exanest_with_header(component->eager_limit);
	net_module_init();
	mca_btl_exanest_init_registration();
	module_limit(&mca_btl_exanest_module.super, attributes.send_max);
	module_limit(&mca_btl_exanest_net_module.super, attributes.send_max);
	return OPAL_SUCCESS;
}

static int address_publish(void)
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
	if (!component_is_selected())
		return NULL;
	if (!mca_btl_exanest_check_settings())
		return NULL;
	btls = malloc(2 * sizeof(*btls));
	if (NULL == btls)
		return NULL;
	if (OPAL_SUCCESS != component_open_context(enable_mpi_threads || opal_using_threads()))
		goto free_btls;
	free_lists_correct(component);
	if (OPAL_SUCCESS != mca_btl_exanest_init_frags())
		goto close_context;
	if (OPAL_SUCCESS !=
	    opal_free_list_init(&component->operations, sizeof(mca_btl_exanest_operation_t),
				opal_cache_line_size, OBJ_CLASS(mca_btl_exanest_operation_t), 0, 0,
				component->free_list_num, -1, component->free_list_inc, NULL, 0,
				NULL, NULL, NULL))
		goto close_context;
	if (OPAL_SUCCESS != address_publish())
		goto close_context;
	btls[0] = &mca_btl_exanest_module.super;
	btls[1] = &mca_btl_exanest_net_module.super;
	component->modules = *num_btls = 2;
	return btls;

close_context:
	pf_close(component->context);
	mca_btl_exanest_comparison_finalize();
	component->context = NULL;
free_btls:
	free(btls);
	return NULL;
}

static uint64_t clock_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* After an empty poll: yield, sleep, or neither. Returns how many things happened. */
static int progress_idle(mca_btl_exanest_component_t *component)
{
	struct mca_btl_exanest_idle *idle = &component->idle;
	const uint64_t polls = component->idle_polls;
	enum idle_step step;
	uint64_t now = 0;
	int count;

	if (!idle_polled(idle))
		return 0;
	if (idle_is_timed(idle, polls))
		now = clock_now();
	step = mca_btl_exanest_idle_next(idle, now, polls);
	if (step == IDLE_POLL)
		return 0;
	if (step == IDLE_YIELD)
		return pf_wait(component->context, 0);
	now = mca_btl_exanest_idle_length(idle, now, component->idle_sleep * 1000);
	count = pf_wait(component->context, (int64_t)(now / 1000));
	/* The poll after the sleep is the first of the next round. */
	if (!count && idle_polled(idle))
		(void)mca_btl_exanest_idle_next(idle, clock_now(), polls);
	return count;
}

/* Make progress, and wait as btl_exanest_idle.h says: one thread at a time. */
static int progress_or_wait(mca_btl_exanest_component_t *component)
{
	const bool threads = atomic_load_explicit(&component->threads, memory_order_relaxed);
	int count;

	if (threads && atomic_exchange_explicit(&component->waits, true, memory_order_acquire)) {
		/* The other thread may need the processor. */
		sched_yield();
		return 0;
	}
	count = pf_progress(component->context);
	if (atomic_load_explicit(&component->posted, memory_order_relaxed)) {
		atomic_store_explicit(&component->posted, false, memory_order_relaxed);
		idle_end(&component->idle);
	}
	if (!count)
		count = progress_idle(component);
	if (count)
		idle_end(&component->idle);
	if (threads)
		atomic_store_explicit(&component->waits, false, memory_order_release);
	return count;
}

static int component_progress(void)
{
	int count;

	mca_btl_exanest_notice_threads();
	count = mca_btl_exanest_component.idle_polls ?
			progress_or_wait(&mca_btl_exanest_component) :
			pf_progress(mca_btl_exanest_component.context);
	if (OPAL_UNLIKELY(!opal_list_is_empty(&mca_btl_exanest_component.waiting)))
		count += mca_btl_exanest_send_pending();
	/* opal_progress would yield the processor after each call that returns 0. */
	return count ? count : mca_btl_exanest_component.yields;
}
