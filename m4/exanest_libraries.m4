# SPDX-License-Identifier: BSD-3-Clause

# EXANEST_SAY(PART, FOUND, COST-IF-MISSING, PACKAGE): add a line to the summary.
# FOUND is a version or text, empty if the part is missing.
AC_DEFUN([EXANEST_SAY], [
	AS_IF([test -n "$2"], [
		exanest_row=`printf '  %-18s %s' "$1" "$2"`
	], [
		exanest_row=`printf '  %-18s MISSING: %s (Debian: %s)' "$1" "$3" "$4"`
	])
	exanest_rows="$exanest_rows
$exanest_row"
])

# EXANEST_LIBRARY(VARIABLE, MODULE, PKG-CONFIG MODULES, COST, PACKAGE, required|optional)
# MODULE is the name of the part in the summary; its version is shown.
AC_DEFUN([EXANEST_LIBRARY], [
	PKG_CHECK_MODULES([$1], [$3],
		[exanest_found_$1=`$PKG_CONFIG --modversion $2`],
		[exanest_found_$1=])
	AS_IF([test -z "$exanest_found_$1" && test $6 = required],
		[exanest_missing="$exanest_missing $5"])
	EXANEST_SAY([$2], [$exanest_found_$1], [$4], [$5])
])

AC_DEFUN([EXANEST_LIBRARIES], [
	EXANEST_LIBRARY([HWLOC], [hwloc], [hwloc >= 2.0],
		[required], [libhwloc-dev], [required])
	EXANEST_LIBRARY([LIBEVENT], [libevent], [libevent_core >= 2.1 libevent_pthreads >= 2.1],
		[required], [libevent-dev], [required])
	EXANEST_LIBRARY([SODIUM], [libsodium], [libsodium >= 1.0.11],
		[required], [libsodium-dev], [required])
	# For libpf.pc. pkg-config wants their own .pc files even where the shared library is used.
	AS_IF([test "x$enable_static" = xyes],
		[exanest_static_requires="hwloc libevent_core libevent_pthreads libsodium"])
	AC_SUBST([exanest_static_requires])
	EXANEST_LIBRARY([LZ4], [liblz4], [liblz4],
		[benchmarks/bfs does not compress its graph], [liblz4-dev], [optional])
	AS_IF([test -n "$exanest_found_LZ4"], [LZ4_CPPFLAGS=-DHAVE_LZ4])
	AC_SUBST([LZ4_CPPFLAGS])
	EXANEST_LIBRARY([CMOCKA], [cmocka], [cmocka >= 1.1.5],
		[no unit tests], [libcmocka-dev], [optional])
	AM_CONDITIONAL([HAVE_CMOCKA], [test -n "$exanest_found_CMOCKA"])
	AM_CONDITIONAL([CHECK_UNITS], [test "x$exanest_check_units" != xno])
	AS_IF([test "x$ac_cv_header_sys_sdt_h" = xyes], [exanest_found=yes], [exanest_found=])
	EXANEST_SAY([sys/sdt.h], [$exanest_found],
		[no static probes for perf and bpftrace], [systemtap-sdt-dev])
])

AC_DEFUN([EXANEST_PROGRAMS], [
	AC_CHECK_PROG([exanest_found_gnuplot], [gnuplot], [yes])
	EXANEST_SAY([gnuplot], [$exanest_found_gnuplot],
		[benchmarks/compare draws no plots], [gnuplot-nox])
	AC_CHECK_PROG([exanest_found_python3], [python3], [yes])
	EXANEST_SAY([python3], [$exanest_found_python3],
		[benchmarks/compare does not run], [python3])
])

# EXANEST_REQUIRE: end here if a required part is missing or Open MPI cannot be used, naming all
# reasons at once.
AC_DEFUN([EXANEST_REQUIRE], [
	AS_IF([test -n "$exanest_missing$exanest_ompi_obstacle"], [
		AS_ECHO(["$exanest_rows
"])
		exanest_error=
		AS_IF([test -n "$exanest_missing"],
			[exanest_error="required libraries are missing; on Debian: apt-get install$exanest_missing
"])
		AS_IF([test -n "$exanest_ompi_obstacle"],
			[exanest_error="${exanest_error}the component cannot be built for Open MPI $exanest_ompi_version (${MPICC:-$OMPI_INFO}):
$exanest_ompi_obstacle
To build libpf and its tools alone: configure --without-ompi"])
		AC_MSG_ERROR([$exanest_error])
	])
])

# EXANEST_LIBDIR: set exanest_prefix and exanest_libdir, and begin exanest_note with what programs
# need to find an installed libpf.so, and exanest_module with the lines of the environment module for it.
AC_DEFUN([EXANEST_LIBDIR], [
	exanest_prefix=$prefix
	AS_IF([test "x$exanest_prefix" = xNONE], [exanest_prefix=$ac_default_prefix])
	exanest_libdir=`prefix=$exanest_prefix; exec_prefix=$exanest_prefix; eval echo "$libdir"`
	# libtool's list, made from the linker's configuration.
	AS_CASE([" $sys_lib_dlsearch_path_spec "],
		[*" $exanest_libdir "*], [exanest_note="After make install, run ldconfig as root, so that the dynamic linker finds libpf.so.
"],
		[exanest_note="The dynamic linker does not search $exanest_libdir. A program that uses the
installed libpf is built by
  export PKG_CONFIG_PATH=$exanest_libdir/pkgconfig
  cc program.c \$(pkg-config --cflags --libs libpf) -Wl,-rpath,$exanest_libdir
or, without -rpath, run with LD_LIBRARY_PATH=$exanest_libdir. For all users, as root:
  echo $exanest_libdir >/etc/ld.so.conf.d/libpf.conf && ldconfig
"
		exanest_module="
prepend-path PATH $exanest_prefix/bin
prepend-path LD_LIBRARY_PATH $exanest_libdir
prepend-path PKG_CONFIG_PATH $exanest_libdir/pkgconfig
prepend-path MANPATH $exanest_prefix/share/man
# An empty element stands for the system's own pages.
append-path MANPATH \"\""])
])

# EXANEST_SUMMARY: print what was found. "make install" prints the note again, from install-note.
AC_DEFUN([EXANEST_SUMMARY], [
	AS_ECHO(["
$PACKAGE $VERSION is configured
$exanest_rows

  prefix             $exanest_prefix
  component folder   ${exanest_btl_dir_shown}
  compiler           $CC $CFLAGS
  sanitizers         $enable_sanitizers
  assertions         $enable_assertions

$exanest_note"])
])
