# SPDX-License-Identifier: BSD-3-Clause

# EXANEST_OMPI: find Open MPI with the internal headers that a component is built
# from, and decide where the component is installed.
#
# If there is an Open MPI and the component cannot be built for it, exanest_ompi_obstacle says
# why, and EXANEST_REQUIRE ends configure. If there is none, only libpf is built.
#
# Set OMPI_CPPFLAGS (system headers: no warnings from them), OMPI_CFLAGS, OMPI_LIBS for MPI
# programs, OPAL_LIBS for the component, MPIRUN, btldir, pmix_pkglibdir.
AC_DEFUN([EXANEST_OMPI], [
	AC_ARG_WITH([ompi],
		[AS_HELP_STRING([--with-ompi=DIR],
			[build the component for the Open MPI installed below DIR
			 (default: the mpicc in PATH); --without-ompi builds libpf alone])],
		[], [with_ompi=check])
	AC_ARG_WITH([btl-dir],
		[AS_HELP_STRING([--with-btl-dir=DIR],
			[install the component in DIR (default: where that Open MPI looks, if
			 it or the prefix is a system one; else LIBDIR/openmpi).
			 Open MPI also searches ~/.openmpi/components])],
		[], [with_btl_dir=])
	AC_ARG_VAR([MPICC], [mpicc of Open MPI, if the one in PATH is another MPI's])
	AS_CASE([$with_btl_dir], [yes|no], [AC_MSG_ERROR([--with-btl-dir needs a folder])])

	exanest_found_ompi=
	exanest_ompi_obstacle=
	exanest_ompi_compat=
	AS_CASE([$with_ompi],
		[no], [exanest_ompi_path=],
		[yes|check], [exanest_ompi_path=$PATH],
		[exanest_ompi_path=$with_ompi/bin])
	# Inline functions of opal need the flag if Open MPI was built with it. Only x86 has it.
	EXANEST_TRY_FLAG([-mcx16], [OMPI_CFLAGS=-mcx16])
	AS_IF([test "x$with_ompi" = xno], [
		exanest_ompi_shown="not wanted: no component, no MPI tests, no comparison"
	], [
		AC_PATH_PROG([MPICC], [mpicc], [], [$exanest_ompi_path])
		AC_PATH_PROG([MPIRUN], [mpirun], [], [$exanest_ompi_path])
		AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$exanest_ompi_path])
		EXANEST_OMPI_VERSION
		AS_IF([test -n "$exanest_ompi_version"], [EXANEST_OMPI_USABLE])
		exanest_ompi_shown=$exanest_found_ompi
		AS_IF([test -n "$exanest_ompi_obstacle"],
			[exanest_ompi_shown="$exanest_ompi_version is here, but $exanest_ompi_obstacle"])
	])
	EXANEST_SAY([Open MPI], [$exanest_ompi_shown],
		[only libpf and its tools are built], [libopenmpi-dev openmpi-bin])
	AM_CONDITIONAL([HAVE_OMPI], [test -n "$exanest_found_ompi"])
	# The framework of accelerators came with version 5.
	AS_CASE([$exanest_found_ompi], [""|[4.*]], [exanest_ompi_accelerator=], [exanest_ompi_accelerator=yes])
	AM_CONDITIONAL([HAVE_OMPI_ACCELERATOR], [test -n "$exanest_ompi_accelerator"])
	# So did the framework of single copy. Without its headers there is no component of it.
	exanest_ompi_smsc=
	AS_IF([test -n "$exanest_ompi_accelerator"], [EXANEST_OMPI_SMSC])
	AM_CONDITIONAL([HAVE_OMPI_SMSC], [test -n "$exanest_ompi_smsc"])
	AM_CONDITIONAL([HAVE_OMPI_COMPAT], [test -n "$exanest_ompi_compat"])
	# The last folder, so that a header of the package is preferred.
	AS_IF([test -n "$exanest_ompi_compat"],
		[OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem \$(top_srcdir)/$exanest_ompi_compat"])
	AC_SUBST([OMPI_CFLAGS])
	AC_SUBST([OMPI_CPPFLAGS])
	AC_SUBST([OMPI_LIBS])
	AC_SUBST([OPAL_LIBS])
	AC_SUBST([ompi_pkglibdir])
	AC_SUBST([pmix_pkglibdir])
	EXANEST_BTL_DIR
])

# EXANEST_OMPI_VERSION: set exanest_ompi_version, empty if there is no Open MPI. Programs of other
# MPIs have the same names: MPIRUN is cleared then.
AC_DEFUN([EXANEST_OMPI_VERSION], [
	AC_MSG_CHECKING([for the version of Open MPI])
	exanest_ompi_version=
	AS_IF([test -n "$MPICC"], [
		exanest_ompi_version=`$MPICC --showme:version 2>&AS_MESSAGE_LOG_FD |
			sed -n 's/.*Open MPI \([[^ ]]*\).*/\1/p'`
	])
	AS_IF([test -z "$exanest_ompi_version" && test -n "$OMPI_INFO"], [
		exanest_ompi_version=`$OMPI_INFO --version 2>&AS_MESSAGE_LOG_FD |
			sed -n 's/^Open MPI v//p'`
		AS_IF([test -z "$exanest_ompi_version"], [],
			[test -z "$MPICC"], [exanest_ompi_obstacle="its mpicc is missing (Debian: libopenmpi-dev)"],
			[exanest_ompi_obstacle="$MPICC belongs to another MPI (name Open MPI's: configure MPICC=FILE)"])
	])
	AC_MSG_RESULT([${exanest_ompi_version:-none}])
	AS_IF([test -n "$exanest_ompi_version"], [], [test "x$with_ompi" = xcheck], [
		MPIRUN=
	], [
		AC_MSG_ERROR([--with-ompi=$with_ompi: no mpicc of Open MPI in $exanest_ompi_path (Debian: libopenmpi-dev openmpi-bin)])
	])
])

# EXANEST_OMPI_USABLE: set exanest_found_ompi if the component can be built for it, else
# exanest_ompi_obstacle.
AC_DEFUN([EXANEST_OMPI_USABLE], [
	# Of later versions, the version of the BTL interface decides: see btl_exanest_compat.h.
	AS_CASE([$exanest_ompi_version],
		[[[0-3].*|4.0.*]], [exanest_ompi_obstacle="the component needs version 4.1 or later"])
	AS_IF([test -z "$exanest_ompi_obstacle" && test -z "$OMPI_INFO"],
		[exanest_ompi_obstacle="ompi_info is missing (Debian: openmpi-bin)"])
	AS_IF([test -z "$exanest_ompi_obstacle"], [
		EXANEST_OMPI_PATH([libdir], [ompi_libdir])
		EXANEST_OMPI_PATH([pkglibdir], [ompi_pkglibdir])
		AS_IF([test -z "$ompi_libdir" || test -z "$ompi_pkglibdir"],
			[exanest_ompi_obstacle="$OMPI_INFO --path prints nothing (see config.log)"])
	])
	AS_IF([test -z "$exanest_ompi_obstacle"], [EXANEST_OMPI_HEADERS])
	AS_IF([test -z "$exanest_ompi_obstacle"], [EXANEST_OMPI_LINK])
	AS_IF([test -z "$exanest_ompi_obstacle" && test -n "$exanest_ompi_compat"],
		[EXANEST_OMPI_LAYOUT])
	AS_IF([test -z "$exanest_ompi_obstacle"],
		[exanest_found_ompi="$exanest_ompi_version ($MPICC)${exanest_ompi_compat:+, with headers from $exanest_ompi_compat}"])
])

# EXANEST_OMPI_PATH(WHAT, VARIABLE): set the variable to one of ompi_info's paths.
AC_DEFUN([EXANEST_OMPI_PATH], [
	$2=`$OMPI_INFO --parsable --path $1 2>&AS_MESSAGE_LOG_FD | sed -n 's/^path:$1://p'`
])

# EXANEST_OMPI_HEADERS: set OMPI_CPPFLAGS to the folders of all headers that the component
# includes. mpicc does not know all of them: pkg-config knows those of PMIx; those that the
# package of Debian 13 lacks are in ompi-btl-exanest/compat.
AC_DEFUN([EXANEST_OMPI_HEADERS], [
	for dir in `$MPICC --showme:incdirs 2>&AS_MESSAGE_LOG_FD`; do
		for sub in "$dir" "$dir/openmpi"; do
			AS_CASE([" $OMPI_CPPFLAGS "], [*" -isystem $sub "*], [continue])
			AS_IF([test "$sub" != /usr/include && test -d "$sub"],
				[OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $sub"])
		done
	done
	OMPI_LIBS=`$MPICC --showme:link 2>&AS_MESSAGE_LOG_FD`
	AC_MSG_CHECKING([for the headers of Open MPI's BTL interface])
	exanest_pkg_config="env PKG_CONFIG_PATH=$ompi_libdir/pkgconfig:$PKG_CONFIG_PATH ${PKG_CONFIG:-false}"
	exanest_pmix_libs=-lpmix
	# Each attempt but the last may find one more folder.
	for attempt in 1 2 3; do
		EXANEST_OMPI_COMPILE
		AS_CASE([$exanest_missing_file],
			[pmix.h], [
				AS_IF([exanest_flags=`$exanest_pkg_config --cflags pmix 2>&AS_MESSAGE_LOG_FD`], [
					exanest_flags=`AS_ECHO(["$exanest_flags"]) | sed 's/-I */-isystem /g'`
					OMPI_CPPFLAGS="$OMPI_CPPFLAGS $exanest_flags"
					exanest_pmix_libs=`$exanest_pkg_config --libs pmix`
				])
			],
			[opal/mca/threads/pthreads/*], [exanest_ompi_compat=ompi-btl-exanest/compat],
			[break])
	done
	AS_IF([test -z "$exanest_ompi_obstacle"], [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
])

# EXANEST_WITH_OMPI(TEST): run a compiler test with Open MPI's flags. Its programs find the library, too.
AC_DEFUN([EXANEST_WITH_OMPI], [
	exanest_saved_cppflags=$CPPFLAGS
	exanest_saved_cflags=$CFLAGS
	exanest_saved_libs=$LIBS
	CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS ${exanest_ompi_compat:+-isystem $srcdir/$exanest_ompi_compat} -I$srcdir/ompi-btl-exanest"
	CFLAGS="$CFLAGS $OMPI_CFLAGS -pthread"
	LIBS="$LIBS $OPAL_LIBS${ompi_libdir:+ -Wl,-rpath,$ompi_libdir}"
	$1
	CPPFLAGS=$exanest_saved_cppflags
	CFLAGS=$exanest_saved_cflags
	LIBS=$exanest_saved_libs
])

# EXANEST_OMPI_COMPILE: compile a program with the headers that the component includes. If it
# fails, set exanest_ompi_obstacle, and exanest_missing_file if a header is missing.
AC_DEFUN([EXANEST_OMPI_COMPILE], [
	exanest_missing_file=
	exanest_ompi_obstacle=
	EXANEST_WITH_OMPI([AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
		#include <mpi.h>
		#include "btl_exanest_compat.h"
		#include "opal/class/opal_bitmap.h"
		#include "opal/class/opal_free_list.h"
		#include "opal/class/opal_hash_table.h"
		#include "opal/mca/base/mca_base_pvar.h"
		#include "opal/mca/btl/base/base.h"
		#include "opal/mca/btl/base/btl_base_error.h"
		#include "opal/util/show_help.h"
		#include "opal/util/sys_limits.h"
	]], [[
		mca_btl_base_component_t component = {
			.btl_version = { MCA_BTL_DEFAULT_VERSION("exanest") },
		};
		return component.btl_version.mca_type_major_version != 3;
	]])], [], [
		exanest_error=`sed -n 's/.*error: //p' conftest.err | head -n 1`
		# gcc: "FILE: No such file or directory"; clang: "'FILE' file not found"
		exanest_missing_file=`AS_ECHO(["$exanest_error"]) |
			sed -n "s/^'*\([[^':]]*\)'*\(: No such file\| file not found\).*/\1/p"`
		AS_CASE([$exanest_missing_file],
			[""], [exanest_ompi_obstacle="$CC rejects its headers: $exanest_error"],
			[pmix*], [exanest_package=libpmix-dev],
			[hwloc*], [exanest_package=libhwloc-dev],
			[event*], [exanest_package=libevent-dev],
			[exanest_package="libopenmpi-dev; if Open MPI was built from source: configure it with --with-devel-headers"])
		AS_IF([test -n "$exanest_missing_file"],
			[exanest_ompi_obstacle="$exanest_missing_file is missing (Debian: $exanest_package)"])
	])])
])

# EXANEST_OMPI_SMSC: set exanest_ompi_smsc if the headers of smsc are as in 5.0 and 6.0.
AC_DEFUN([EXANEST_OMPI_SMSC], [
	AC_MSG_CHECKING([for the headers of Open MPI's smsc interface])
	EXANEST_WITH_OMPI([AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
		#include "opal_config.h"
		#include "opal/mca/smsc/base/base.h"
		#include "opal/mca/smsc/smsc.h"
	]], [[
		mca_smsc_component_t component = { .smsc_version = { MCA_SMSC_DEFAULT_VERSION("exanest") } };
		return component.smsc_version.mca_type_major_version != 1;
	]])], [exanest_ompi_smsc=yes])])
	AC_MSG_RESULT([${exanest_ompi_smsc:-no}])
])

# EXANEST_OMPI_LINK: set OPAL_LIBS, or exanest_ompi_obstacle.
AC_DEFUN([EXANEST_OMPI_LINK], [
	OPAL_LIBS="-L$ompi_libdir -lopen-pal"
	AS_CASE([$exanest_ompi_version], [4.*], [], [
		OPAL_LIBS="$OPAL_LIBS $exanest_pmix_libs"
		# The folder of PMIx's own components: see environment.in.
		pmix_pkglibdir=$ompi_libdir/pmix
		AS_IF([test ! -d "$pmix_pkglibdir" && exanest_dir=`$exanest_pkg_config --variable=libdir pmix`],
			[pmix_pkglibdir=$exanest_dir/pmix])
		# PMIx passes this parameter on to the ranks, as Open MPI's own.
		exanest_dir=`$exanest_pkg_config --variable=prefix pmix`
		exanest_pmix_hides=`grep -ls '^ *mca_base_component_path' /etc/pmix-mca-params.conf \
			"$exanest_dir"/etc/pmix-mca-params.conf "$exanest_dir"/share/pmix-mca-params.conf`
	])
	AC_MSG_CHECKING([whether the component can be linked])
	EXANEST_WITH_OMPI([AC_LINK_IFELSE([AC_LANG_PROGRAM([[
		#include "btl_exanest_compat.h"
		#if BTL_VERSION >= 330
		#define LIBRARY_OF_PMIX PMIx_Initialized()
		#else
		#define LIBRARY_OF_PMIX 0
		#endif
	]], [[return opal_mutex_t_class.cls_initialized + LIBRARY_OF_PMIX;]])],
		[exanest_linked=yes], [exanest_linked=no])])
	AC_MSG_RESULT([$exanest_linked])
	AS_IF([test $exanest_linked = no],
		[exanest_ompi_obstacle="$OPAL_LIBS does not link (Debian: libopenmpi-dev; see config.log)"])
])

# EXANEST_OMPI_LAYOUT: set exanest_ompi_obstacle if the library was built with something else than
# ompi-btl-exanest/compat declares.
AC_DEFUN([EXANEST_OMPI_LAYOUT], [
	AC_MSG_CHECKING([whether $exanest_ompi_compat fits the library])
	EXANEST_WITH_OMPI([AC_RUN_IFELSE([AC_LANG_SOURCE([[
		#include "compat/check_layout.c"
	]])], [exanest_fits=yes], [exanest_fits=no], [exanest_fits="not checked when cross compiling"])])
	AC_MSG_RESULT([$exanest_fits])
	AS_IF([test "$exanest_fits" = no],
		[exanest_ompi_obstacle="its headers in opal/mca/threads/pthreads are missing, and those of $exanest_ompi_compat do not fit its library (see config.log)"])
])

# EXANEST_BTL_DIR: set btldir; add to exanest_note and exanest_module what makes ranks search it, if they
# do not.
AC_DEFUN([EXANEST_BTL_DIR], [
	AS_IF([test -n "$with_btl_dir"], [
		btldir=$with_btl_dir
	], [test "x$with_ompi" != xcheck && test "x$with_ompi" != xyes], [
		btldir=$ompi_pkglibdir
	], [test "$exanest_prefix" = /usr || test "$exanest_prefix" = /usr/local], [
		btldir=$ompi_pkglibdir
	], [
		btldir='${libdir}/openmpi'
	])
	AS_IF([test -z "$exanest_found_ompi"], [
		btldir='${libdir}/openmpi'
		exanest_btl_dir_shown="none: there is no component"
	], [
		exanest_btl_dir_shown=`libdir=$exanest_libdir; prefix=$exanest_prefix; eval echo "$btldir"`
		AS_IF([test -n "$exanest_pmix_hides"], [
			exanest_reason="$exanest_pmix_hides makes mpirun's processes search PMIx's folder alone
for components."
		], [
			AS_CASE([$exanest_btl_dir_shown],
				["$ompi_pkglibdir"|"$HOME/.openmpi/components"], [exanest_reason=],
				[exanest_reason="Open MPI does not search the folder of the component; it does search
$HOME/.openmpi/components (--with-btl-dir)."])
		])
		exanest_path=$ompi_pkglibdir
		AS_IF([test "$exanest_btl_dir_shown" != "$ompi_pkglibdir"],
			[exanest_path=$exanest_btl_dir_shown:$ompi_pkglibdir])
		AS_IF([test -n "$exanest_reason"], [exanest_note="$exanest_note
$exanest_reason So that mpirun finds the installed component:
  export OMPI_MCA_mca_base_component_path=$exanest_path${pmix_pkglibdir:+
  export PMIX_MCA_mca_base_component_path=$pmix_pkglibdir}
"
			exanest_module="$exanest_module
setenv OMPI_MCA_mca_base_component_path $exanest_path${pmix_pkglibdir:+
setenv PMIX_MCA_mca_base_component_path $pmix_pkglibdir}"])
	])
	AC_SUBST([btldir])
])
