# SPDX-License-Identifier: BSD-3-Clause

# EXANEST_COMPILER: find C11 with atomics, and the warnings that our code is compiled with.
AC_DEFUN([EXANEST_COMPILER], [
	AC_MSG_CHECKING([for C11 atomics without a library])
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[
		#include <stdatomic.h>
		#include <stdint.h>
		#if __STDC_VERSION__ < 201112L || ATOMIC_LLONG_LOCK_FREE != 2
		#error no lock-free 64-bit atomics
		#endif
		static _Atomic uint64_t counter;
	]], [[
		return (int)atomic_fetch_add_explicit(&counter, 1, memory_order_acq_rel);
	]])], [
		AC_MSG_RESULT([yes])
	], [
		AC_MSG_RESULT([no])
		AC_MSG_ERROR([$CC lacks C11 or lock-free 64-bit atomics: use gcc 7 or clang 7 or later])
	])

	EXANEST_PTHREAD

	AC_ARG_ENABLE([werror],
		[AS_HELP_STRING([--enable-werror], [make every compiler warning an error])])
	for flag in -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
		-Wold-style-definition -Wpointer-arith -Wwrite-strings -Wvla -Wundef -Wformat=2 \
		-Wimplicit-fallthrough -Wlogical-op -Wduplicated-cond \
		-Wno-missing-field-initializers -Wno-unused-parameter -fno-common -fno-semantic-interposition; do
		EXANEST_TRY_FLAG([$flag], [EXANEST_CFLAGS="$EXANEST_CFLAGS $flag"])
	done
	AS_IF([test "x$enable_werror" = xyes], [EXANEST_CFLAGS="$EXANEST_CFLAGS -Werror"])
	AC_SUBST([EXANEST_CFLAGS])
	AC_SUBST([EXANEST_LDFLAGS])

	AC_CHECK_HEADERS([sys/sdt.h valgrind/memcheck.h])
])

# EXANEST_PTHREAD: add -pthread, which glibc before 2.34 needs and later ones accept.
AC_DEFUN([EXANEST_PTHREAD], [
	EXANEST_TRY_FLAG([-pthread], [
		EXANEST_CFLAGS="$EXANEST_CFLAGS -pthread"
		EXANEST_LDFLAGS="$EXANEST_LDFLAGS -pthread"
	], [AC_MSG_ERROR([$CC does not take -pthread])])
])

# EXANEST_TRY_FLAG(FLAG, IF-TAKEN, [IF-NOT])
AC_DEFUN([EXANEST_TRY_FLAG], [
	AS_VAR_PUSHDEF([exanest_taken], [exanest_cv_flag_$1])
	AC_CACHE_CHECK([whether $CC takes $1], [exanest_taken], [
		exanest_saved_cflags=$CFLAGS
		CFLAGS="$CFLAGS -Werror $1"
		AC_LINK_IFELSE([AC_LANG_PROGRAM()],
			[AS_VAR_SET([exanest_taken], [yes])], [AS_VAR_SET([exanest_taken], [no])])
		CFLAGS=$exanest_saved_cflags
	])
	AS_VAR_IF([exanest_taken], [yes], [$2], [$3])
	AS_VAR_POPDEF([exanest_taken])
])

# EXANEST_SANITIZERS: --enable-sanitizers=LIST instruments everything we build; --enable-assertions (base/check.h).
AC_DEFUN([EXANEST_SANITIZERS], [
	AC_ARG_ENABLE([sanitizers],
		[AS_HELP_STRING([--enable-sanitizers=LIST],
			[instrument with "address,undefined" (also for a bare --enable-sanitizers)
			 or with "thread"])],
		[], [enable_sanitizers=no])
	AS_CASE([$enable_sanitizers],
		[no], [
			# Not with sanitizers: the program defines their symbols.
			EXANEST_TRY_FLAG([-Wl,-z,defs],
				[EXANEST_LIBRARY_LDFLAGS="-Wl,-z,defs"])
		],
		[
			AS_IF([test "x$enable_sanitizers" = xyes],
				[enable_sanitizers=address,undefined])
			exanest_flags="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
			AS_CASE([$enable_sanitizers], [*undefined*],
				[exanest_flags="$exanest_flags -fno-sanitize-recover=undefined"])
			# gcc warns about every fence, because its thread sanitizer ignores fences.
			AS_CASE([$enable_sanitizers], [*thread*], [
				EXANEST_TRY_FLAG([-Wno-tsan], [exanest_flags="$exanest_flags -Wno-tsan"])
			])
			EXANEST_TRY_FLAG([$exanest_flags], [
				EXANEST_CFLAGS="$EXANEST_CFLAGS $exanest_flags"
				EXANEST_LDFLAGS="$EXANEST_LDFLAGS $exanest_flags"
			], [AC_MSG_ERROR([$CC cannot link with $exanest_flags (with clang on Debian: apt-get install libclang-rt-14-dev)])])
		])
	AC_SUBST([EXANEST_LIBRARY_LDFLAGS])

	AC_ARG_ENABLE([assertions],
		[AS_HELP_STRING([--enable-assertions],
			[check threads, locks and states while the library runs (default: with sanitizers)])],
		[], [AS_IF([test "x$enable_sanitizers" = xno], [enable_assertions=no], [enable_assertions=yes])])
	AS_IF([test "x$enable_assertions" != xno], [EXANEST_CFLAGS="$EXANEST_CFLAGS -DPF_ASSERTIONS"])
])

# EXANEST_COMPARISON: --enable-comparison lets the component prefault and pin buffers, as other networks need it.
AC_DEFUN([EXANEST_COMPARISON], [
	AC_ARG_ENABLE([comparison],
		[AS_HELP_STRING([--enable-comparison],
			[build what only benchmarks need: btl_exanest_mode, which prefaults or pins buffers])],
		[], [enable_comparison=no])
	AM_CONDITIONAL([COMPARISON], [test "x$enable_comparison" != xno])
])
