/* SPDX-License-Identifier: BSD-3-Clause */
/* The main() of every benchmark program. The build defines BENCHMARK for each. */
#include "benchmark.h"

#ifndef BENCHMARK /* static analysis */
#define BENCHMARK benchmark_latency
#endif

int main(int argc, char **argv)
{
	return benchmark_main(&BENCHMARK, argc, argv);
}
