/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_calibrate.h"

#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "cache_line.h"
#include "calibration_file.h"
#include "distance.h"
#include "perf_compare.h"

/* Least gain, beside the noise, of a value that replaces the default. */
#define GAIN_MIN 0.05
/* With more noise, or a smaller share of a core, the machine is busy: ignore the times. */
#define NOISE_MAX 0.25
#define SHARE_MIN 0.6
#define STREAM_WINDOW 64

struct calibration {
	const struct cores *cores;
	enum distance distance; /* distance of the cores; DISTANCE_UNKNOWN: all */
	bool force;
	pf_options defaults;
	pf_options options; /* options with the values decided already */
	struct calibration_entry entries[8 + DISTANCES];
	unsigned count;
};

static void show_progress(const struct comparison *comparison, double done)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (done < 1)
		fprintf(stderr, "\r%-12s %3.0f %%", comparison->name, done * 100);
	else
		fprintf(stderr, "\r%24s\r", "");
}

static void show_comparison(const struct comparison *comparison)
{
	unsigned method, size;

	printf("\n%s: microseconds by size\n%12s", comparison->name, "bytes");
	for (method = 0; method < comparison->method_count; method++)
		printf(" %12s", comparison->methods[method].name);
	printf("\n");
	for (size = 0; size < comparison->size_count; size++) {
		printf("%12zu", comparison->sizes[size]);
		for (method = 0; method < comparison->method_count; method++)
			printf(" %12.3f", comparison->time[method][size] * 1e6);
		printf("\n");
	}
}

static int calibration_compare(struct calibration *calibration, struct comparison *comparison)
{
	if (compare_methods(comparison, calibration->cores, show_progress))
		return -1;
	show_comparison(comparison);
	return 0;
}

static const pf_option_info *option_named(const char *name)
{
	const pf_option_info *info = pf_option_table();

	while (strcmp(info->name, name) != 0)
		info++;
	return info;
}

/*
 * Give the option the value, also in later comparisons, unless the machine was busy or its
 * processors moved.
 */
static int calibration_decide(struct calibration *calibration, const struct comparison *comparison,
			      uint64_t value)
{
	const pf_option_info *info = option_named(comparison->name);
	uint64_t before = *option_field(&calibration->defaults, info);
	struct calibration_entry entry = { info, calibration->distance, value };
	char name[64];

	calibration_entry_name(&entry, name, sizeof(name));
	if (!calibration->force &&
	    (comparison->noise > NOISE_MAX || comparison->share < SHARE_MIN)) {
		printf("%s stays %llu: the machine is busy (%.0f %% of a core available, noise %.0f %%)\n",
		       name, (unsigned long long)before, comparison->share * 100,
		       comparison->noise * 100);
		return 0;
	}
	if (!calibration->force && !comparison->steady) {
		printf("%s stays %llu: the distance between the cores changes\n", name,
		       (unsigned long long)before);
		return 0;
	}
	if (!option_valid(info, value)) {
		warnx("%s: measured %llu, which is out of range", info->name,
		      (unsigned long long)value);
		return -1;
	}
	if (!calibration->distance)
		*option_field(&calibration->options, info) = value;
	calibration->entries[calibration->count++] = entry;
	printf("%s = %llu (default %llu, noise %.0f %%)\n", name, (unsigned long long)value,
	       (unsigned long long)before, comparison->noise * 100);
	return 0;
}

static void add_method(struct comparison *comparison, const char *name, enum operation operation,
		       unsigned window, const pf_options *options)
{
	struct method *method = &comparison->methods[comparison->method_count++];

	snprintf(method->name, sizeof(method->name), "%s", name);
	method->operation = operation;
	method->window = window;
	method->options = *options;
}

static void add_size(struct comparison *comparison, size_t size)
{
	comparison->sizes[comparison->size_count++] = size;
}

/*
 * A split comparison has two groups of methods: even methods for sizes below the limit, and odd
 * methods for sizes from the limit on. Return the geometric mean of a group's times.
 */
static double group_time(const struct comparison *comparison, unsigned group, unsigned size)
{
	double product = 1;
	unsigned method;

	for (method = group; method < comparison->method_count; method += 2)
		product *= comparison->time[method][size];
	return pow(product, 2.0 / comparison->method_count);
}

/*
 * Return the number of sizes for the even methods that makes the product of all times least. Return
 * by_default, the number in force, if no size gains enough.
 */
static unsigned comparison_split(const struct comparison *comparison, unsigned by_default)
{
	unsigned best = by_default, at, size;
	double least = INFINITY;

	for (at = 0; at <= comparison->size_count; at++) {
		double cost = 0;

		for (size = 0; size < comparison->size_count; size++)
			cost += log(group_time(comparison, size >= at, size));
		if (cost < least) {
			least = cost;
			best = at;
		}
	}
	for (size = 0; size < comparison->size_count; size++) {
		double now = group_time(comparison, size >= by_default, size);
		double then = group_time(comparison, size >= best, size);

		if (now > then * (1 + GAIN_MIN + comparison->noise))
			return best;
	}
	return by_default;
}

static int calibrate_share_min(struct calibration *calibration)
{
	struct comparison comparison = { .name = "share_min" };
	uint64_t by_default = calibration->options.share_min;
	pf_options alone = calibration->options, both = calibration->options;
	unsigned place, best;
	size_t size;

	alone.share_min = option_named("share_min")->maximum;
	both.share_min = option_named("share_min")->minimum;
	add_method(&comparison, "one end", OPERATION_GET, 1, &alone);
	add_method(&comparison, "both ends", OPERATION_GET, 1, &both);
	for (size = 8 << 10; size <= 1 << 20; size *= 2)
		add_size(&comparison, size);
	if (calibration_compare(calibration, &comparison))
		return -1;
	for (place = 0; place < comparison.size_count; place++) {
		if (comparison.sizes[place] >= by_default)
			break;
	}
	best = comparison_split(&comparison, place);
	if (best == place)
		return calibration_decide(calibration, &comparison, by_default);
	return calibration_decide(calibration, &comparison,
				  best < comparison.size_count ?
					  comparison.sizes[best] :
					  2 * comparison.sizes[comparison.size_count - 1]);
}

/*
 * Measure single messages and windows: the best limit for messages slows windows, and vice versa.
 */
static int calibrate_eager_limit(struct calibration *calibration)
{
	struct comparison comparison = { .name = "eager_limit" };
	uint64_t by_default = calibration->options.eager_limit;
	unsigned place, best;
	size_t size;

	add_method(&comparison, "pf_send", OPERATION_STORE, 1, &calibration->options);
	add_method(&comparison, "pf_get", OPERATION_FETCH, 1, &calibration->options);
	add_method(&comparison, "pf_send many", OPERATION_STORE, STREAM_WINDOW,
		   &calibration->options);
	add_method(&comparison, "pf_get many", OPERATION_FETCH, STREAM_WINDOW,
		   &calibration->options);
	for (size = 2 << 10; size <= 64 << 10; size *= 2) {
		add_size(&comparison, size);
		add_size(&comparison, size / 2 * 3);
	}
	add_size(&comparison, size);
	if (calibration_compare(calibration, &comparison))
		return -1;
	for (place = 0; place < comparison.size_count; place++) {
		if (comparison.sizes[place] > by_default)
			break;
	}
	best = comparison_split(&comparison, place);
	if (best == place)
		return calibration_decide(calibration, &comparison, by_default);
	return calibration_decide(calibration, &comparison,
				  best ? comparison.sizes[best - 1] : comparison.sizes[0] / 2);
}

/*
 * The methods differ in an option and are ordered by its value. Return the method with the least
 * time over all sizes: the default if its time is good enough, else the first good method.
 */
static unsigned comparison_choose(const struct comparison *comparison, unsigned by_default)
{
	double cost[COMPARE_METHODS] = { 0 }, least = INFINITY, enough;
	unsigned method, size;

	for (method = 0; method < comparison->method_count; method++) {
		for (size = 0; size < comparison->size_count; size++)
			cost[method] += log(comparison->time[method][size]);
		cost[method] /= comparison->size_count;
		if (cost[method] < least)
			least = cost[method];
	}
	enough = least + log(1 + GAIN_MIN + comparison->noise);
	if (cost[by_default] <= enough)
		return by_default;
	for (method = 0; method < comparison->method_count; method++) {
		if (cost[method] <= enough)
			return method;
	}
	return by_default;
}

/* Try the powers of two from min to max. The default must lie between. */
static int calibrate_candidates(struct calibration *calibration, struct comparison *comparison,
				enum operation operation, unsigned window, uint64_t min,
				uint64_t max)
{
	const pf_option_info *info = option_named(comparison->name);
	uint64_t value, values[COMPARE_METHODS] = { 0 };
	unsigned by_default = COMPARE_METHODS;
	char name[24];

	for (value = min; value <= max && comparison->method_count < COMPARE_METHODS; value *= 2) {
		pf_options options = calibration->options;

		if (value == *option_field(&calibration->defaults, info))
			by_default = comparison->method_count;
		*option_field(&options, info) = value;
		values[comparison->method_count] = value;
		snprintf(name, sizeof(name), "%lluK", (unsigned long long)value >> 10);
		add_method(comparison, name, operation, window, &options);
	}
	if (by_default == COMPARE_METHODS) {
		warnx("the default of %s is not among the candidates", info->name);
		return -1;
	}
	if (calibration_compare(calibration, comparison))
		return -1;
	return calibration_decide(calibration, comparison,
				  values[comparison_choose(comparison, by_default)]);
}

static int calibrate_ring_size(struct calibration *calibration)
{
	struct comparison comparison = { .name = "ring_size" };
	uint64_t eager = calibration->options.eager_limit, min = 64 << 10;

	/* The ring must hold several of the longest messages. */
	while (min < 8 * eager && min < calibration->defaults.ring_size)
		min *= 2;
	add_size(&comparison, 8);
	add_size(&comparison, 4096);
	if (eager > 4096)
		add_size(&comparison, eager);
	return calibrate_candidates(calibration, &comparison, OPERATION_STORE, STREAM_WINDOW, min,
				    4 << 20);
}

static int calibrate_run_max(struct calibration *calibration)
{
	struct comparison comparison = { .name = "run_max" };

	add_size(&comparison, 1 << 20);
	add_size(&comparison, 4 << 20);
	add_size(&comparison, 16 << 20);
	return calibrate_candidates(calibration, &comparison, OPERATION_GET, 1, 128 << 10, 2 << 20);
}

/* Find out whether single copy moves transfers. *path: pf_peer_path. */
static int probe_single_copy(const struct calibration *calibration, bool *works, const char **path)
{
	struct session session;

	if (session_fork(&session, &calibration->options, calibration->cores))
		return -1;
	*path = session_path(&session);
	*works = pf_stat(session.context, PF_STAT_SINGLE_COPY_BYTES) > 0;
	return session_close(&session);
}

/* Measure share_min for the remaining distances between processors of the machine. */
static int measure_distances(struct calibration *calibration)
{
	const enum distance nearest = cores_distance(calibration->cores);
	struct cores pairs[DISTANCES];
	enum distance distance;

	if (cores_by_distance(pairs))
		return -1;
	for (distance = DISTANCE_UNKNOWN + 1; distance < DISTANCES; distance++) {
		if (pairs[distance].first == CORE_ANY || distance == nearest)
			continue;
		calibration->cores = &pairs[distance];
		calibration->distance = distance;
		printf("\n%s: cores %s\n", distance_name(distance), pairs[distance].text);
		if (calibrate_share_min(calibration))
			return -1;
	}
	return 0;
}

static int calibration_measure(struct calibration *calibration, bool distances)
{
	const char *path;
	bool works;

	if (probe_single_copy(calibration, &works, &path))
		return -1;
	if (!works) {
		printf("share_min, eager_limit and run_max are not measured: transfers go %s\n",
		       path);
		return calibrate_ring_size(calibration);
	}
	if (calibrate_share_min(calibration) || calibrate_eager_limit(calibration) ||
	    calibrate_ring_size(calibration))
		return -1;
	if (calibrate_run_max(calibration))
		return -1;
	return distances ? measure_distances(calibration) : 0;
}

static void warn_of_environment(const struct calibration *calibration)
{
	char name[64];
	unsigned i;

	for (i = 0; i < calibration->count; i++) {
		option_variable(calibration->entries[i].info->name, name, sizeof(name));
		if (getenv(name))
			warnx("%s is set and overrides the calibration", name);
	}
}

int calibrate(const struct cores *cores, bool distances, bool show, bool force)
{
	struct calibration calibration = { .cores = cores, .force = force };
	char line[96];

	if (cores->first == CORE_ANY || cores_shared(cores)) {
		warnx("--calibrate needs two cores to bind its processes to");
		return -1;
	}
	/* Fail before the measurements, not after them. */
	if (!show && calibration_writable())
		return -1;
	options_read_defaults(&calibration.defaults, NULL);
	calibration.options = calibration.defaults;
	/* The replaced file must not count. */
	calibration.options.calibrate = 0;
	cache_line_describe(cores, line, sizeof(line));
	printf("Calibration on cores %s; cache line: %s\n", cores->text, line);
	if (calibration_measure(&calibration, distances))
		return -1;
	warn_of_environment(&calibration);
	if (!calibration.count) {
		warnx("nothing was calibrated: repeat when the machine is idle, or with --force");
		return -1;
	}
	if (show)
		return 0;
	return calibration_write(calibration.entries, calibration.count);
}
